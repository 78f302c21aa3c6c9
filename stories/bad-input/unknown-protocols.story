# TCP, UDP and SCTP are what a proxy can serve; no protocol at all means TCP.
-- cluster --
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- objects --
kind: Service
metadata: {namespace: default, name: web}
spec:
  type: ClusterIP
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  ipFamilies: [IPv4]
  ports:
  - {name: http, port: 80}
  - {name: quic, port: 443, protocol: QUIC}
  - {name: lower, port: 53, protocol: udp}
---
kind: EndpointSlice
metadata: {namespace: default, name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports:
- {name: http, port: 8080}
- {name: quic, port: 8443, protocol: QUIC}
endpoints:
- {addresses: [10.244.2.5], nodeName: b}
-- diagnostics --
Service default/web: spec.ports[1].protocol: unknown protocol "QUIC", the port is ignored
Service default/web: spec.ports[2].protocol: unknown protocol "udp", the port is ignored
EndpointSlice default/web-1: ports[1].protocol: unknown protocol "QUIC", the port is ignored
-- packets --
FROM        TO              OUTCOME
10.244.1.3  10.96.0.10:80   10.244.2.5:8080
10.244.1.3  10.96.0.10:443  untouched
