# A NodePort without endpoints refuses connections on the addresses that accept NodePorts, and is not there on others.
-- proxy --
mode nftables
nodePortAddresses primary
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/empty  NodePort  clusterIP 10.96.0.16  port http 80→8080  nodePort 30099
-- plan --
FRONTEND                OWNER            FROM    THEN
10.96.0.16:80/tcp       shop/empty:http  anyone  reject
10.96.0.16 other ports  shop/empty:http  anyone  reject
nodePort 30099/tcp      shop/empty:http  anyone  reject
-- packets --
FROM                                   TO                OUTCOME
203.0.113.5                            192.0.2.10:30099  rejected  # nftables N43
10.244.1.100                           192.0.2.10:30099  rejected  # nftables N44
192.0.2.10                             192.0.2.10:30099  rejected  # nftables N45
203.0.113.5                            192.0.2.77:30099  untouched  # nftables N46
10.244.1.100, 192.0.2.10, 203.0.113.5  10.96.0.16:80     rejected
