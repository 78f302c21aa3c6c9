# UDP Services are relayed like TCP ones.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service kube-system/kube-dns  clusterIP 10.96.0.53  port dns 53/udp
endpoint kube-system/kube-dns 10.244.1.53  node node-a
endpoint kube-system/kube-dns 10.244.2.53  node node-b
-- packets --
FROM          TO                 OUTCOME
10.244.1.100  10.96.0.53:53/udp  10.244.1.53:53 masqueraded | 10.244.2.53:53 masqueraded
10.244.1.53   10.96.0.53:53/udp  10.244.1.53:53 masqueraded | 10.244.2.53:53 masqueraded
192.0.2.10    10.96.0.53:53/udp  10.244.1.53:53 masqueraded | 10.244.2.53:53 masqueraded
