# masqueradeAll changes nothing: everybody appears with an address of the node anyway.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
masqueradeAll
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/web  clusterIP 10.96.0.10  port http 80→8080
endpoint shop/web 10.244.1.5  node node-a
endpoint shop/web 10.244.2.7  node node-b
service shop/npl  NodePort  clusterIP 10.96.0.12  port http 80→8080  nodePort 30081  externalTrafficPolicy Local
endpoint shop/npl 10.244.1.7  node node-a
endpoint shop/npl 10.244.2.9  node node-b
-- packets --
FROM          TO                OUTCOME
10.244.1.100  10.96.0.10:80     10.244.1.5:8080 masqueraded | 10.244.2.7:8080 masqueraded
203.0.113.5   192.0.2.10:30081  10.244.1.7:8080 masqueraded
