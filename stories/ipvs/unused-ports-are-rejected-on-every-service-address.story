# In ipvs mode service addresses are bound to the host, so whatever else is asked of them is refused: no sshd through a
# load balancer.
-- proxy --
mode ipvs
-- cluster --
service web  LoadBalancer 203.0.113.7  externalIP 203.0.113.8  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM          TO                                                                     OUTCOME
198.51.100.9  203.0.113.7:22, 203.0.113.8:22, 203.0.113.7:30080, 203.0.113.7:80/udp  rejected
10.244.1.3    10.96.0.10:22, 10.96.0.10 icmp                                         rejected
# An address no Service has is left alone.
10.244.1.3    10.96.0.11:80                                                          untouched
