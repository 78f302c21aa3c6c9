# An address nobody can read costs that address and one line; everything else of the Service is served. Leading zeros are
# read as people mean them.
-- cluster --
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- objects --
kind: Service
metadata: {namespace: default, name: web}
spec:
  type: LoadBalancer
  clusterIP: 10.96.0.010
  clusterIPs: [10.96.0.010]
  ipFamilies: [IPv4]
  externalIPs: ["", " ", "203.0.113.x", "203.0.113.8"]
  ports: [{name: http, port: 80, protocol: TCP}]
status:
  loadBalancer:
    ingress: [{ip: "300.1.2.3"}, {hostname: lb.example.org}, {ip: "203.0.113.007"}]
---
kind: EndpointSlice
metadata: {namespace: default, name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints:
- {addresses: [10.244.2.500], nodeName: b}
- {addresses: [fd00:244:2::5], nodeName: b}
- {addresses: [], nodeName: b}
- {addresses: [10.244.2.5, 10.244.2.6], nodeName: b}
-- diagnostics --
Service default/web: spec.externalIPs[2]: "203.0.113.x" is not an IP address, ignored
Service default/web: status.loadBalancer.ingress[0].ip: "300.1.2.3" is not an IP address, ignored
EndpointSlice default/web-1: endpoints[0].addresses[0]: "10.244.2.500" is not an IP address, ignored
EndpointSlice default/web-1: endpoints[1].addresses[0]: "fd00:244:2::5" is of another IP family than the object says, ignored
EndpointSlice default/web-1: endpoints[2].addresses: missing, the endpoint is ignored
-- plan --
FRONTEND            OWNER             FROM        THEN
10.96.0.10:80/tcp   default/web:http  local pods  cluster pool
                                      anyone      cluster pool, masquerade
203.0.113.7:80/tcp  default/web:http  anyone      cluster pool, masquerade
203.0.113.8:80/tcp  default/web:http  anyone      cluster pool, masquerade
POOL                      ENDPOINTS
default/web:http cluster  10.244.2.5:8080
-- packets --
FROM          TO                              OUTCOME
10.244.1.3    10.96.0.10:80                   10.244.2.5:8080
198.51.100.9  203.0.113.7:80, 203.0.113.8:80  10.244.2.5:8080 masqueraded
