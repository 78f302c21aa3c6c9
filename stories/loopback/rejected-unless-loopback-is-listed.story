# With NodePorts on localhost switched on but loopback not listed, packets to 127.0.0.0/8 and ::1 are refused at once,
# whether the Service has endpoints or not.
-- proxy --
mode nftables
nodePortAddresses primary
loopbackNodePorts forwardedOrRejected
-- cluster --
service web  NodePort  clusterIP 10.96.0.10,fd00:96::10  port http 80→8080  nodePort 30080
service dns  NodePort  clusterIP 10.96.0.53  port dns 53/udp  nodePort 30053
service calls  NodePort  clusterIP 10.96.0.9  port sip 9/sctp  nodePort 30009
endpoint web 10.244.2.5  node b
endpoint web fd00:244:2::5  node b
node a  addresses 192.0.2.1,2001:db8::1  podCIDR 10.244.1.0/24
-- packets --
FROM          TO                                                                           OUTCOME
127.0.0.1     127.0.0.1:30080, 127.0.0.2:30080, 127.0.0.1:30053/udp, 127.0.0.1:30009/sctp  rejected
::1           [::1]:30080                                                                  rejected
127.0.0.1     127.0.0.1:30081                                                              untouched
198.51.100.9  192.0.2.1:30080                                                              10.244.2.5:8080 masqueraded
