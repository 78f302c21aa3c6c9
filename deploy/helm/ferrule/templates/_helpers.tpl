{{- define "ferrule.labels" -}}
app.kubernetes.io/name: ferrule
{{- end }}

{{- define "ferrule.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ if .Values.legacyIptables }}-iptables{{ end }}
{{- end }}

{{/* The container's part that the init container shares. */}}
{{- define "ferrule.env" -}}
- name: NODE_NAME
  valueFrom:
    fieldRef:
      fieldPath: spec.nodeName
{{- end }}

{{- define "ferrule.check" -}}
{{- if not (has .Values.mode (list "nftables" "iptables" "ipvs" "userspace")) }}
{{- fail (printf "mode %q is none of nftables, iptables, ipvs, userspace" .Values.mode) }}
{{- end }}
{{- if not .Values.apiServer.host }}
{{- fail "apiServer.host is not set: the address or name of the control plane, as nodes reach it without a proxy" }}
{{- end }}
{{- if and .Values.podMonitor.enabled (eq .Values.mode "userspace") }}
{{- fail "podMonitor names a port of the node, and in userspace mode two pods overlap: scrape it another way" }}
{{- end }}
{{- end }}
