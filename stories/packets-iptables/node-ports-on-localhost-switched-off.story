# With localhostNodePorts off, 127.0.0.1 serves no NodePort, not even if nodePortAddresses lists it.
-- proxy --
mode iptables
loopbackNodePorts notServed
detectLocal ClusterCIDR 10.244.0.0/16
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/np  NodePort  clusterIP 10.96.0.11  port http 80→8080  nodePort 30080
endpoint shop/np 10.244.1.6  node node-a
-- packets --
FROM       TO               OUTCOME
127.0.0.1  127.0.0.1:30080  untouched  # iptables I23
-- proxy --
nodePortAddresses 127.0.0.1/32
-- packets --
FROM         TO                OUTCOME
127.0.0.1    127.0.0.1:30080   untouched
203.0.113.5  192.0.2.10:30080  untouched
