# A policy, an affinity or an IP family that does not exist: one line each, the default is used.
-- objects --
apiVersion: v1
kind: Service
metadata: { name: web, namespace: default }
spec:
  type: NodePort
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10, 10.96.0.11]
  ipFamilies: [IPv4, IPv5]
  internalTrafficPolicy: Nearby
  externalTrafficPolicy: Far
  sessionAffinity: Cookie
  ports: [{ port: 80, nodePort: 30080 }]
-- diagnostics --
Service default/web: spec.externalTrafficPolicy: unknown value "Far", Cluster is used
Service default/web: spec.internalTrafficPolicy: unknown value "Nearby", Cluster is used
Service default/web: spec.ipFamilies[1]: unknown value "IPv5", its cluster IP is ignored
Service default/web: spec.sessionAffinity: unknown value "Cookie", None is used
-- plan --
FRONTEND            OWNER        FROM    THEN
10.96.0.10:80/tcp   default/web  anyone  reject
nodePort 30080/tcp  default/web  anyone  reject
