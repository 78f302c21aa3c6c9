# With the gate and loopback listed, ipvs mode serves TCP and UDP NodePorts on 127.0.0.1 and ::1 beside the node's own addresses:
# the process relays what rules cannot. SCTP is refused.
-- proxy --
mode ipvs
nodePortAddresses 192.0.2.1/32,2001:db8::1/128,127.0.0.0/8,::1/128
loopbackNodePorts forwardedOrRejected
-- cluster --
service web  NodePort  clusterIP 10.96.0.10,fd00:96::10  port http 80→8080  nodePort 30080
service dns  NodePort  clusterIP 10.96.0.53,fd00:96::53  port dns 53→9090/udp  nodePort 30053
service calls  NodePort  clusterIP 10.96.0.9  port sip 9/sctp  nodePort 30009
endpoint web 10.244.2.5  node b
endpoint web 10.244.1.6  node a
endpoint web fd00:244:2::5  node b
endpoint dns 10.244.2.53  node b
endpoint dns fd00:244:2::53  node b
endpoint calls 10.244.2.9  node b
node a  addresses 192.0.2.1,2001:db8::1  podCIDR 10.244.1.0/24
-- packets --
FROM           TO                       OUTCOME
127.0.0.1      127.0.0.1:30080          10.244.1.6:8080 masqueraded | 10.244.2.5:8080 masqueraded
::1            [::1]:30080              [fd00:244:2::5]:8080 masqueraded
127.0.0.1      127.0.0.1:30053/udp      10.244.2.53:9090 masqueraded
::1            [::1]:30053/udp          [fd00:244:2::53]:9090 masqueraded
127.0.0.1      127.0.0.1:30009/sctp     rejected
127.0.0.1      127.0.0.1:30081          untouched
192.0.2.1      192.0.2.1:30080          10.244.1.6:8080 masqueraded | 10.244.2.5:8080 masqueraded
198.51.100.9   192.0.2.1:30080          10.244.1.6:8080 masqueraded | 10.244.2.5:8080 masqueraded
198.51.100.9   192.0.2.1:30053/udp      10.244.2.53:9090 masqueraded
2001:db8:f::9  [2001:db8::1]:30080      [fd00:244:2::5]:8080 masqueraded
2001:db8:f::9  [2001:db8::1]:30053/udp  [fd00:244:2::53]:9090 masqueraded
-- then: gone endpoint dns fd00:244:2::53 --
-- packets --
FROM       TO                   OUTCOME
::1        [::1]:30053/udp      untouched
127.0.0.1  127.0.0.1:30053/udp  10.244.2.53:9090 masqueraded
