# Pods may be told by the interface their packets come in on: one bridge, or all interfaces that begin alike.
-- proxy --
detectLocal InterfaceNamePrefix cali
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1
-- packets --
FROM                    TO             OUTCOME
10.244.1.3 via cali7f2  10.96.0.10:80  10.244.2.5:8080
10.244.1.3 via eth0     10.96.0.10:80  10.244.2.5:8080 masqueraded
192.0.2.1               10.96.0.10:80  10.244.2.5:8080 masqueraded
-- proxy --
detectLocal BridgeInterface cni0
-- node --
NODE
family                  IPv4
local pods              by interface cni0
node port addresses     all
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  none
NODE
family                  IPv6
local pods              by interface cni0
node port addresses     all
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  none
-- packets --
FROM                  TO             OUTCOME
10.244.1.3 via cni0   10.96.0.10:80  10.244.2.5:8080
10.244.1.3 via cni01  10.96.0.10:80  10.244.2.5:8080 masqueraded
