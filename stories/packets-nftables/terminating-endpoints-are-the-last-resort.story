# Endpoints that are shutting down but still serve are used when nothing better is left: for this node's pool and for the
# cluster's pool, each on its own.
-- proxy --
mode nftables
nodePortAddresses primary
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/roll  LoadBalancer 198.51.100.50  clusterIP 10.96.0.50  port http 80→8080  externalTrafficPolicy Local  healthCheckNodePort 32050
endpoint shop/roll 10.244.1.51  node node-a  ready
endpoint shop/roll 10.244.1.52  node node-a  ready
endpoint shop/roll 10.244.1.53  node node-a  terminating
endpoint shop/roll 10.244.2.51  node node-b  ready
-- packets --
FROM          TO                OUTCOME
203.0.113.5   198.51.100.50:80  10.244.1.51:8080 | 10.244.1.52:8080  # nftables N70
10.244.1.100  10.96.0.50:80     10.244.1.51:8080 | 10.244.1.52:8080 | 10.244.2.51:8080  # nftables N70
-- then --
endpoint shop/roll 10.244.1.51  node node-a  terminating
endpoint shop/roll 10.244.1.52  node node-a  terminating
endpoint shop/roll 10.244.1.53  node node-a  terminated
-- plan --
FRONTEND                OWNER           FROM        THEN
10.96.0.50:80/tcp       shop/roll:http  local pods  cluster pool
                                        anyone      cluster pool, masquerade
198.51.100.50:80/tcp    shop/roll:http  local pods  cluster pool
                                        this host   cluster pool, masquerade
                                        anyone      local pool
10.96.0.50 other ports  shop/roll:http  anyone      reject
POOL                    ENDPOINTS
shop/roll:http cluster  10.244.2.51:8080
shop/roll:http local    10.244.1.51:8080, 10.244.1.52:8080
HEALTH CHECK  PORT   LOCAL ENDPOINTS
shop/roll     32050  0
-- packets --
FROM          TO                OUTCOME
203.0.113.5   198.51.100.50:80  10.244.1.51:8080 | 10.244.1.52:8080  # nftables N71
10.244.1.100  10.96.0.50:80     10.244.2.51:8080  # nftables N71
-- then --
gone endpoint shop/roll 10.244.1.51
gone endpoint shop/roll 10.244.1.52
gone endpoint shop/roll 10.244.1.53
endpoint shop/roll 10.244.2.51  node node-b  terminating
-- packets --
FROM          TO                OUTCOME
203.0.113.5   198.51.100.50:80  dropped  # nftables N72
10.244.1.100  10.96.0.50:80     10.244.2.51:8080  # nftables N72
-- then: endpoint shop/roll 10.244.2.51 node node-b terminated --
-- packets --
FROM          TO                OUTCOME
203.0.113.5   198.51.100.50:80  rejected  # nftables N73
10.244.1.100  10.96.0.50:80     rejected  # nftables N73
