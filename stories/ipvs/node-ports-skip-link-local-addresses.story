# ipvs mode binds NodePorts to the addresses it finds: not loopback, and no IPv6 link-local ones unless a block names them.
-- proxy --
mode ipvs
-- cluster --
service web  NodePort  clusterIP fd00:96::10  port http 80→8080  nodePort 30080
endpoint web fd00:244:2::5  node b
node a  addresses 2001:db8::1  alsoOn fe80::1  podCIDR fd00:244:1::/64
-- node --
NODE
family                  IPv4
local pods              unknown
node port addresses     none
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  none
NODE
family                  IPv6
local pods              from fd00:244:1::/64
node port addresses     2001:db8::1
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  none
-- packets --
FROM           TO                   OUTCOME
2001:db8:9::9  [2001:db8::1]:30080  [fd00:244:2::5]:8080 masqueraded
fe80::9        [fe80::1]:30080      untouched
::1            [::1]:30080          untouched
-- proxy --
nodePortAddresses fe80::/10
-- packets --
FROM           TO                   OUTCOME
fe80::9        [fe80::1]:30080      [fd00:244:2::5]:8080 masqueraded
2001:db8:9::9  [2001:db8::1]:30080  untouched
