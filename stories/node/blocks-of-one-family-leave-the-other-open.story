# nodePortAddresses that name only IPv4 blocks do not close IPv6: there NodePorts are on every address.
-- proxy --
nodePortAddresses 192.0.2.0/24
-- cluster --
service web  NodePort  clusterIP 10.96.0.10,fd00:96::10  port http 80→8080  nodePort 30080
endpoint web 10.244.2.5  node b
endpoint web fd00:244:2::5  node b
node a  addresses 192.0.2.1,2001:db8::1  alsoOn 10.9.0.1,2001:db8:5::2  podCIDR 10.244.1.0/24,fd00:244:1::/64
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
local pods              from fd00:244:1::/64
node port addresses     all
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  none
-- packets --
FROM           TO                                          OUTCOME
198.51.100.9   192.0.2.1:30080                             10.244.2.5:8080 masqueraded
198.51.100.9   10.9.0.1:30080                              untouched
2001:db8:9::9  [2001:db8::1]:30080, [2001:db8:5::2]:30080  [fd00:244:2::5]:8080 masqueraded
