# Where loopback alone is listed nobody but the host itself reaches NodePorts in ipvs mode, and the host by loopback only.
-- proxy --
mode ipvs
nodePortAddresses localhost
loopbackNodePorts forwardedOrRejected
-- cluster --
service web  NodePort  clusterIP 10.96.0.10,fd00:96::10  port http 80→8080  nodePort 30080
service dns  NodePort  clusterIP 10.96.0.53  port dns 53→9090/udp  nodePort 30053
service near  NodePort  clusterIP 10.96.0.11  port http 80→8080  nodePort 30081  externalTrafficPolicy Local
endpoint web 10.244.2.5  node b
endpoint web fd00:244:2::5  node b
endpoint dns 10.244.1.53  node a
endpoint near 10.244.1.7  node a
endpoint near 10.244.2.7  node b
node a  addresses 192.0.2.1,2001:db8::1  podCIDR 10.244.1.0/24
-- packets --
FROM           TO                   OUTCOME
127.0.0.1      127.0.0.1:30080      10.244.2.5:8080 masqueraded
::1            [::1]:30080          [fd00:244:2::5]:8080 masqueraded
127.0.0.1      127.0.0.1:30053/udp  10.244.1.53:9090 masqueraded
127.0.0.1      127.0.0.1:30081      10.244.1.7:8080 masqueraded
198.51.100.9   192.0.2.1:30080      untouched
198.51.100.9   192.0.2.1:30053/udp  untouched
2001:db8:f::9  [2001:db8::1]:30080  untouched
192.0.2.1      192.0.2.1:30080      untouched
-- proxy --
nodePortAddresses 192.0.2.0/24,2001:db8::/64
-- packets --
FROM           TO                   OUTCOME
127.0.0.1      127.0.0.1:30080      rejected
::1            [::1]:30080          rejected
127.0.0.1      127.0.0.1:30053/udp  rejected
198.51.100.9   192.0.2.1:30080      10.244.2.5:8080 masqueraded
