# Ports of a Service's address that no Service port serves are refused, and so are pings: the address is the node's, and its
# listeners must not answer there. Packets to addresses that no Service has follow the routes.
-- proxy --
mode ipvs
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
serviceCIDR 10.96.0.0/12
service shop/web  clusterIP 10.96.0.10  port http 80→8080
endpoint shop/web 10.244.1.5  node node-a
service kube-system/kube-dns  clusterIP 10.96.0.53  port dns 53/udp
endpoint kube-system/kube-dns 10.244.1.53  node node-a
-- node --
NODE
family                  IPv4
local pods              from 10.244.0.0/16
node port addresses     192.0.2.10, 192.0.2.77
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  none
NODE
family                  IPv6
local pods              from fd00:244::/32
node port addresses     none
loopback node ports     not served
masquerade              mark 0x00004000
guarded service ranges  none
-- packets --
FROM                      TO                                OUTCOME
10.244.1.100, 192.0.2.10  10.96.0.10:81                     rejected  # ipvs R55
10.244.1.100              10.96.0.10:80/udp, 10.96.0.53:53  rejected
10.244.1.100, 192.0.2.10  10.96.5.5:80                      untouched
10.244.1.100, 192.0.2.10  10.96.0.10 icmp                   rejected
