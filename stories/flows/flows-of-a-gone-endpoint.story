# UDP has no end of connection: when an endpoint goes, the kernel must forget the flows that lead to it, and only those.
-- cluster --
service dns  LoadBalancer 203.0.113.53  externalIP 203.0.113.54  clusterIP 10.96.0.53  port dns 53/udp  nodePort 30053
endpoint dns 10.244.1.53  node a
endpoint dns 10.244.2.53  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- then: gone endpoint dns 10.244.2.53 --
-- delta --
changed  10.96.0.53:53/udp, 203.0.113.53:53/udp, 203.0.113.54:53/udp, nodePort 30053/udp, default/dns:dns cluster, flows of default/dns:dns
-- flows --
FLOW                    ANSWERED BY         THEN
udp 10.96.0.53:53       10.244.2.53:53      delete
udp 203.0.113.53:53     10.244.2.53:53      delete
udp 203.0.113.54:53     10.244.2.53:53      delete
udp 192.0.2.1:30053     10.244.2.53:53      delete
udp 10.96.0.53:53       10.244.1.53:53      keep
udp 192.0.2.1:30053     10.244.1.53:53      keep
# Another port of the address, and another host that happens to use the node port's number.
udp 10.96.0.53:5353     10.244.2.53:5353    keep
udp 198.51.100.1:30053  198.51.100.1:30053  keep
