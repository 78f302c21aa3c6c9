# With nodePortAddresses primary, NodePorts move along when the node's address changes. The old one is let go.
-- proxy --
nodePortAddresses primary
-- cluster --
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  alsoOn 192.0.2.2  podCIDR 10.244.1.0/24
-- node --
NODE
family                  IPv4
local pods              from 10.244.1.0/24
node port addresses     192.0.2.1
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  none
NODE
family                  IPv6
local pods              unknown
node port addresses     all
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  none
-- packets --
FROM          TO               OUTCOME
198.51.100.9  192.0.2.1:30080  10.244.2.5:8080 masqueraded
198.51.100.9  192.0.2.2:30080  untouched
-- then: node a addresses 192.0.2.2 alsoOn 192.0.2.1 podCIDR 10.244.1.0/24 --
-- delta --
changed  node
-- packets --
FROM          TO               OUTCOME
198.51.100.9  192.0.2.1:30080  untouched
198.51.100.9  192.0.2.2:30080  10.244.2.5:8080 masqueraded
