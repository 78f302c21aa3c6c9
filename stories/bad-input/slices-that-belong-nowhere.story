# A slice without its Service's label, of names instead of addresses, or with half a port, is passed over with a word.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- objects --
kind: EndpointSlice
metadata: {namespace: default, name: lost}
addressType: IPv4
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [10.244.9.1]}]
---
kind: EndpointSlice
metadata: {namespace: default, name: by-name, labels: {kubernetes.io/service-name: web}}
addressType: FQDN
ports: [{name: http, port: 8080, protocol: TCP}]
endpoints: [{addresses: [web.example.org]}]
---
kind: EndpointSlice
metadata: {namespace: default, name: half, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080, protocol: TCP}, {name: http, protocol: TCP}]
endpoints: [{addresses: [10.244.9.2]}]
-- diagnostics --
EndpointSlice default/by-name: addressType: address type "FQDN" is not proxied, the object is ignored
EndpointSlice default/half: ports[0].name: missing, the port is ignored
EndpointSlice default/half: ports[1].port: missing, the port is ignored
EndpointSlice default/lost: metadata.labels[kubernetes.io/service-name]: missing, the slice is ignored
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080
