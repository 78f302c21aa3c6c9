# Names end up in the kernel. One that is too long, or has control characters in it, costs its object or port, is shown
# harmlessly, and blocks nobody else.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- objects --
kind: Service
metadata:
  namespace: default
  name: nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn
spec: {type: ClusterIP, clusterIP: 10.96.0.11, clusterIPs: [10.96.0.11], ipFamilies: [IPv4], ports: [{name: http, port: 80, protocol: TCP}]}
---
kind: Service
metadata: {namespace: default, name: "bell\u0007 and\nnew line"}
spec: {type: ClusterIP, clusterIP: 10.96.0.12, clusterIPs: [10.96.0.12], ipFamilies: [IPv4], ports: [{name: http, port: 80, protocol: TCP}]}
---
kind: Service
metadata: {namespace: default, name: half}
spec:
  type: ClusterIP
  clusterIP: 10.96.0.13
  clusterIPs: [10.96.0.13]
  ipFamilies: [IPv4]
  ports: [{name: "\u001b[31mred", port: 80, protocol: TCP}, {name: https, port: 443, protocol: TCP}]
---
kind: EndpointSlice
metadata: {namespace: default, name: half-1, labels: {kubernetes.io/service-name: half}}
addressType: IPv4
ports: [{name: https, port: 8443, protocol: TCP}]
endpoints: [{addresses: [10.244.2.6]}]
-- diagnostics --
Service default/bell\u{7} and\nnew line: metadata.name: "bell\u{7} and\nnew line" is not a usable name, ignored
Service default/half: spec.ports[0].name: "\u{1b}[31mred" is not a usable name, ignored
Service default/nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn… (308 characters): metadata.name: "nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn… (300 characters)" is not a usable name, ignored
-- packets --
FROM        TO                                           OUTCOME
10.244.1.3  10.96.0.10:80                                10.244.2.5:8080
10.244.1.3  10.96.0.11:80, 10.96.0.12:80, 10.96.0.13:80  untouched
10.244.1.3  10.96.0.13:443                               10.244.2.6:8443
