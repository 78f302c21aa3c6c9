# Labels, annotations and status conditions are of no concern to a proxy: such an update changes nothing.
-- cluster --
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- objects --
kind: Service
metadata: {namespace: default, name: web, resourceVersion: "1"}
spec:
  type: ClusterIP
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  ipFamilies: [IPv4]
  ports: [{name: http, port: 80, targetPort: 8080, protocol: TCP}]
---
kind: EndpointSlice
metadata: {namespace: default, name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.244.2.5], nodeName: b, conditions: {ready: true}}
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080
-- then --
-- objects --
kind: Service
metadata:
  namespace: default
  name: web
  resourceVersion: "2"
  labels: {team: shop}
  annotations: {example.org/reviewed: "yes"}
spec:
  type: ClusterIP
  clusterIP: 10.96.0.10
  clusterIPs: [10.96.0.10]
  ipFamilies: [IPv4]
  selector: {app: web}
  ports: [{name: http, port: 80, targetPort: http, protocol: TCP, appProtocol: http}]
---
kind: EndpointSlice
metadata: {namespace: default, name: web-1, generation: 7, labels: {kubernetes.io/service-name: web, team: shop}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.244.2.5], nodeName: b, conditions: {ready: true, serving: true, terminating: false}, zone: west}
-- delta --
nothing
