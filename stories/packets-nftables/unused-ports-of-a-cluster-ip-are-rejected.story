# nftables mode answers at once when somebody asks a cluster IP for a port, protocol or ping that no Service port serves.
-- proxy --
mode nftables
nodePortAddresses primary
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/web  clusterIP 10.96.0.10  port http 80→8080
endpoint shop/web 10.244.1.5  node node-a
endpoint shop/web 10.244.2.7  node node-b
service kube-system/kube-dns  clusterIP 10.96.0.53  port dns 53/udp
endpoint kube-system/kube-dns 10.244.1.53  node node-a
endpoint kube-system/kube-dns 10.244.2.53  node node-b
-- packets --
FROM                      TO                 OUTCOME
10.244.1.100              10.96.0.10:81      rejected  # nftables N5
10.244.1.100              10.96.0.10:80/udp  rejected  # nftables N6
192.0.2.10                10.96.0.10:81      rejected  # nftables N7
10.244.1.100, 192.0.2.10  10.96.0.10 icmp    rejected  # nftables N8
10.244.1.100              10.96.0.53:53      rejected  # nftables N17
