# nftables mode serves NodePorts on the node's primary address unless told otherwise, and never on loopback.
-- proxy --
mode nftables
nodePortAddresses primary
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/np  NodePort  clusterIP 10.96.0.11  port http 80→8080  nodePort 30080
endpoint shop/np 10.244.1.6  node node-a
endpoint shop/np 10.244.2.8  node node-b
-- node --
NODE
family                  IPv4
local pods              from 10.244.0.0/16
node port addresses     192.0.2.10
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  none
NODE
family                  IPv6
local pods              from fd00:244::/32
node port addresses     all
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  none
-- packets --
FROM          TO                OUTCOME
203.0.113.5   192.0.2.10:30080  10.244.1.6:8080 masqueraded | 10.244.2.8:8080 masqueraded  # nftables N32
203.0.113.5   192.0.2.77:30080  untouched  # nftables N33
10.244.1.100  192.0.2.10:30080  10.244.1.6:8080 masqueraded | 10.244.2.8:8080 masqueraded  # nftables N35
192.0.2.10    192.0.2.10:30080  10.244.1.6:8080 masqueraded | 10.244.2.8:8080 masqueraded  # nftables N36
127.0.0.1     127.0.0.1:30080   untouched  # nftables N37
-- proxy --
nodePortAddresses all
-- packets --
FROM         TO                OUTCOME
203.0.113.5  192.0.2.77:30080  10.244.1.6:8080 masqueraded | 10.244.2.8:8080 masqueraded  # nftables N34
127.0.0.1    127.0.0.1:30080   untouched  # nftables N37
-- proxy --
nodePortAddresses 192.0.2.0/24
-- packets --
FROM         TO                OUTCOME
203.0.113.5  192.0.2.77:30080  10.244.1.6:8080 masqueraded | 10.244.2.8:8080 masqueraded  # nftables N34
127.0.0.1    127.0.0.1:30080   untouched  # nftables N37
-- proxy --
nodePortAddresses localhost
-- packets --
FROM         TO                OUTCOME
127.0.0.1    127.0.0.1:30080   untouched  # nftables N37
203.0.113.5  192.0.2.10:30080  untouched
