# A cluster IP spreads connections over all endpoints. The process connects to them, so everybody appears with an address of the
# node.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/web  clusterIP 10.96.0.10  port http 80→8080
endpoint shop/web 10.244.1.5  node node-a
endpoint shop/web 10.244.2.7  node node-b
service shop/lb  LoadBalancer 198.51.100.20  clusterIP 10.96.0.13  port https 443→8443  nodePort 30443
endpoint shop/lb 10.244.1.8  node node-a
-- packets --
FROM          TO              OUTCOME
10.244.1.100  10.96.0.10:80   10.244.1.5:8080 masqueraded | 10.244.2.7:8080 masqueraded
10.244.1.5    10.96.0.10:80   10.244.1.5:8080 masqueraded | 10.244.2.7:8080 masqueraded
192.0.2.10    10.96.0.10:80   10.244.1.5:8080 masqueraded | 10.244.2.7:8080 masqueraded
203.0.113.5   10.96.0.10:80   10.244.1.5:8080 masqueraded | 10.244.2.7:8080 masqueraded
10.244.1.100  10.96.0.13:443  10.244.1.8:8443 masqueraded
# In this mode also a pod of another node is masqueraded when it meets itself here.
10.244.2.7    10.96.0.10:80   10.244.1.5:8080 masqueraded | 10.244.2.7:8080 masqueraded
