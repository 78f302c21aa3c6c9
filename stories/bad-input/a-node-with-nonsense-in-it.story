# Nonsense in the Node or in the service ranges costs the entry, not the node.
-- proxy --
mode nftables
nodePortAddresses primary
-- cluster --
node a  addresses 192.0.2.one,192.0.2.1  podCIDR 10.244.1.0/99,10.244.1.0/24
serviceCIDR 10.96.0.0/12,fd00:96::/129
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080
endpoint web 10.244.2.5  node b
-- diagnostics --
Node a: spec.podCIDRs[0]: "10.244.1.0/99" is not a CIDR, ignored
Node a: status.addresses[0].address: "192.0.2.one" is not an IP address, ignored
ServiceCIDR kubernetes: spec.cidrs[1]: "fd00:96::/129" is not a CIDR, ignored
-- node --
NODE
family                  IPv4
local pods              from 10.244.1.0/24
node port addresses     192.0.2.1
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  10.96.0.0/12
NODE
family                  IPv6
local pods              unknown
node port addresses     all
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  none
-- packets --
FROM          TO               OUTCOME
10.244.1.3    10.96.0.10:80    10.244.2.5:8080
198.51.100.9  192.0.2.1:30080  10.244.2.5:8080 masqueraded
10.244.1.3    10.96.9.9:80     dropped
