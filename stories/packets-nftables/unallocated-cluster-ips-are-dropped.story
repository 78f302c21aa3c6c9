# An address of the service range that no Service has swallows packets, unless the ranges are not known.
-- proxy --
mode nftables
nodePortAddresses primary
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
serviceCIDR 10.96.0.0/12,fd00:96::/112
service shop/web  clusterIP 10.96.0.10  port http 80→8080
endpoint shop/web 10.244.1.5  node node-a
-- node --
NODE
family                  IPv4
local pods              from 10.244.0.0/16
node port addresses     192.0.2.10
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  10.96.0.0/12
NODE
family                  IPv6
local pods              from fd00:244::/32
node port addresses     all
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  fd00:96::/112
-- packets --
FROM          TO               OUTCOME
10.244.1.100  10.96.5.5:80     dropped  # nftables N9
192.0.2.10    10.96.5.5:80     dropped  # nftables N10
fd00:244:1::100  [fd00:96::5]:80  dropped
# Unused ports of an address in use are still rejected.
10.244.1.100  10.96.0.10:81    rejected
-- then: gone serviceCIDR --
-- delta --
changed  node
IPv6 changed  node
-- packets --
FROM          TO             OUTCOME
10.244.1.100  10.96.5.5:80   untouched  # nftables N11
10.244.1.100  10.96.0.10:80  10.244.1.5:8080
