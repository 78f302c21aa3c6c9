# internalTrafficPolicy is about the cluster IP alone: a NodePort or load balancer leads everybody to all endpoints.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/both  LoadBalancer 198.51.100.40  clusterIP 10.96.0.40  port http 80→8080  nodePort 30084  internalTrafficPolicy Local
endpoint shop/both 10.244.1.40  node node-a
endpoint shop/both 10.244.2.40  node node-b
-- packets --
FROM                                   TO                                  OUTCOME
10.244.1.100, 192.0.2.10, 203.0.113.5  192.0.2.10:30084, 198.51.100.40:80  10.244.1.40:8080 masqueraded | 10.244.2.40:8080 masqueraded
