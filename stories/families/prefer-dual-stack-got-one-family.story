# PreferDualStack on a cluster that could give just one address: the other family is declared and missing, and is not served.
-- cluster --
node a  addresses 192.0.2.1,2001:db8::1  podCIDR 10.244.1.0/24,fd00:244:1::/64
-- objects --
kind: Service
metadata: {namespace: default, name: web}
spec:
  type: NodePort
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  ipFamilies: [IPv4, IPv6]
  ipFamilyPolicy: PreferDualStack
  ports: [{name: http, port: 80, protocol: TCP, nodePort: 30080}]
---
kind: EndpointSlice
metadata: {namespace: default, name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.244.2.5]}]
-- diagnostics --
nothing
-- packets --
FROM           TO                   OUTCOME
198.51.100.9   192.0.2.1:30080      10.244.2.5:8080 masqueraded
2001:db8:9::9  [2001:db8::1]:30080  untouched
