# A client that sent before the Service was there has a flow to the address itself, and would never be redirected.
-- cluster --
service dns  clusterIP 10.96.0.53  port dns 53/udp
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- then: endpoint dns 10.244.2.53 node b --
-- delta --
changed  10.96.0.53:53/udp, default/dns:dns cluster, flows of default/dns:dns
-- flows --
FLOW               ANSWERED BY     THEN
udp 10.96.0.53:53  10.96.0.53:53   delete
udp 10.96.0.53:54  10.96.0.53:54   keep
udp 10.96.0.53:53  10.244.2.53:53  keep
