# TCP and UDP may share a port number of one cluster IP; each leads to its own endpoint port. SCTP is not relayed.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/names  clusterIP 10.96.0.54  port tcp 53→5301  port udp 53→5302/udp  port sctp 53→5303/sctp
endpoint shop/names 10.244.1.54  node node-a
endpoint shop/names 10.244.2.54  node node-b
-- packets --
FROM          TO                  OUTCOME
10.244.1.100  10.96.0.54:53       10.244.1.54:5301 masqueraded | 10.244.2.54:5301 masqueraded
10.244.1.100  10.96.0.54:53/udp   10.244.1.54:5302 masqueraded | 10.244.2.54:5302 masqueraded
10.244.1.100  10.96.0.54:53/sctp  untouched
