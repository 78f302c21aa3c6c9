# On a node without IPv6 the proxy plans IPv4 alone, and is silent about the rest.
-- proxy --
families IPv4
-- cluster --
service web  clusterIP 10.96.0.10,fd00:96::10  port http 80→8080
endpoint web 10.244.2.5  node b
endpoint web fd00:244:2::5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- node --
NODE
family                  IPv4
local pods              from 10.244.1.0/24
node port addresses     all
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  none
-- packets --
FROM           TO                OUTCOME
10.244.1.3     10.96.0.10:80     10.244.2.5:8080
fd00:244:1::3  [fd00:96::10]:80  untouched
