# With the last endpoint gone, all flows of the Service's addresses go. Those of its node port stay: the number may be
# somebody else's on this host.
-- cluster --
service dns  NodePort  clusterIP 10.96.0.53  port dns 53/udp  nodePort 30053
endpoint dns 10.244.2.53  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- then: gone endpoint dns 10.244.2.53 --
-- delta --
changed  10.96.0.53:53/udp, nodePort 30053/udp, default/dns:dns cluster, flows of default/dns:dns
-- flows --
FLOW                 ANSWERED BY     THEN
udp 10.96.0.53:53    10.244.2.53:53  delete
udp 192.0.2.1:30053  10.244.2.53:53  keep
