# externalTrafficPolicy Local and the only endpoint is elsewhere: outsiders are closed. Pods and the host still get through.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/lbl  LoadBalancer 198.51.100.21  clusterIP 10.96.0.18  port http 80→8080  nodePort 30082  externalTrafficPolicy Local  healthCheckNodePort 32000
endpoint shop/lbl 10.244.2.12  node node-b
-- packets --
FROM          TO                OUTCOME
203.0.113.5   192.0.2.10:30082  rejected
10.244.1.100  192.0.2.10:30082  10.244.2.12:8080 masqueraded
192.0.2.10    192.0.2.10:30082  10.244.2.12:8080 masqueraded
203.0.113.5   198.51.100.21:80  rejected
10.244.1.100  198.51.100.21:80  10.244.2.12:8080 masqueraded
192.0.2.10    198.51.100.21:80  10.244.2.12:8080 masqueraded
