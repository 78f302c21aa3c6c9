# externalTrafficPolicy Local and the only endpoint is elsewhere: outsiders are dropped, so that their load balancer tries
# another node. Pods and the host still get through.
-- proxy --
mode nftables
nodePortAddresses primary
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/lbl  LoadBalancer 198.51.100.21  clusterIP 10.96.0.18  port http 80→8080  nodePort 30082  externalTrafficPolicy Local  healthCheckNodePort 32000
endpoint shop/lbl 10.244.2.12  node node-b
-- plan --
FRONTEND                OWNER          FROM        THEN
10.96.0.18:80/tcp       shop/lbl:http  local pods  cluster pool
                                       anyone      cluster pool, masquerade
198.51.100.21:80/tcp    shop/lbl:http  local pods  cluster pool
                                       this host   cluster pool, masquerade
                                       anyone      drop
10.96.0.18 other ports  shop/lbl:http  anyone      reject
nodePort 30082/tcp      shop/lbl:http  (as 198.51.100.21:80/tcp)
POOL                   ENDPOINTS
shop/lbl:http cluster  10.244.2.12:8080
HEALTH CHECK  PORT   LOCAL ENDPOINTS
shop/lbl      32000  0
-- packets --
FROM          TO                OUTCOME
203.0.113.5   192.0.2.10:30082  dropped  # nftables N47
10.244.1.100  192.0.2.10:30082  10.244.2.12:8080  # nftables N48
192.0.2.10    192.0.2.10:30082  10.244.2.12:8080 masqueraded  # nftables N49
203.0.113.5   198.51.100.21:80  dropped  # nftables N60
10.244.1.100  198.51.100.21:80  10.244.2.12:8080  # nftables N61
192.0.2.10    198.51.100.21:80  10.244.2.12:8080 masqueraded  # nftables N62
10.244.1.100  10.96.0.18:80     10.244.2.12:8080  # nftables N63
-- counts --
IPv4 without local endpoints: internal 0, external 1
IPv6 without local endpoints: internal 0, external 0
