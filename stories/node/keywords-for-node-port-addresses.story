# nodePortAddresses takes CIDRs and the words primary, localhost and all, in any mix. Loopback is not served by any of them
# unless the mode has a way to.
-- proxy --
nodePortAddresses primary
-- cluster --
service web  NodePort  clusterIP 10.96.0.10,fd00:96::10  port http 80→8080  nodePort 30080
endpoint web 10.244.2.5  node b
endpoint web fd00:244:2::5  node b
node a  addresses 192.0.2.1,2001:db8::1  alsoOn 192.0.2.2,10.9.0.1,2001:db8::2  podCIDR 10.244.1.0/24,fd00:244:1::/64
-- packets --
FROM           TO                               OUTCOME
198.51.100.9   192.0.2.1:30080                  10.244.2.5:8080 masqueraded
198.51.100.9   192.0.2.2:30080, 10.9.0.1:30080  untouched
2001:db8:9::9  [2001:db8::1]:30080              [fd00:244:2::5]:8080 masqueraded
2001:db8:9::9  [2001:db8::2]:30080              untouched
-- proxy --
nodePortAddresses primary,localhost,10.9.0.0/16
-- packets --
FROM          TO                               OUTCOME
198.51.100.9  192.0.2.1:30080, 10.9.0.1:30080  10.244.2.5:8080 masqueraded
198.51.100.9  192.0.2.2:30080                  untouched
127.0.0.1     127.0.0.1:30080                  untouched
-- proxy --
nodePortAddresses all
-- node --
NODE
family                  IPv4
local pods              from 10.244.1.0/24
node port addresses     all
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
FROM           TO                                                OUTCOME
198.51.100.9   192.0.2.1:30080, 192.0.2.2:30080, 10.9.0.1:30080  10.244.2.5:8080 masqueraded
2001:db8:9::9  [2001:db8::1]:30080, [2001:db8::2]:30080          [fd00:244:2::5]:8080 masqueraded
127.0.0.1      127.0.0.1:30080                                   untouched
