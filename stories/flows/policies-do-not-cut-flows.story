# A change of traffic policy is about new flows: those that exist stay with their endpoint, as TCP connections do.
-- cluster --
service dns  NodePort  clusterIP 10.96.0.53  port dns 53/udp  nodePort 30053
endpoint dns 10.244.1.53  node a
endpoint dns 10.244.2.53  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- then --
service dns  NodePort  clusterIP 10.96.0.53  port dns 53/udp  nodePort 30053  externalTrafficPolicy Local  internalTrafficPolicy Local
-- delta --
changed  10.96.0.53:53/udp, nodePort 30053/udp, default/dns:dns local
-- packets --
FROM          TO                   OUTCOME
198.51.100.9  192.0.2.1:30053/udp  10.244.1.53:53
-- flows --
FLOW                 ANSWERED BY     THEN
udp 10.96.0.53:53    10.244.2.53:53  keep
udp 192.0.2.1:30053  10.244.2.53:53  keep
