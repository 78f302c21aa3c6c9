# sessionAffinity ClientIP: a client keeps its endpoint until it has been silent for the timeout; then it may get another.
-- proxy --
mode nftables
nodePortAddresses primary
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/sticky  clusterIP 10.96.0.15  port http 80→8080  sessionAffinity ClientIP 10800
endpoint shop/sticky 10.244.1.9  node node-a
endpoint shop/sticky 10.244.2.11  node node-b
-- packets --
FROM          TO             OUTCOME
10.244.1.100  10.96.0.15:80  10.244.1.9:8080 | 10.244.2.11:8080 sticky 10800s  # nftables N29, N30
-- then --
# The NodePort uses the same pool, so the client is remembered across both.
service shop/sticky  NodePort  clusterIP 10.96.0.15  port http 80→8080  nodePort 30085  sessionAffinity ClientIP 10800
-- plan --
FRONTEND                OWNER             FROM        THEN
10.96.0.15:80/tcp       shop/sticky:http  local pods  cluster pool
                                          anyone      cluster pool, masquerade
10.96.0.15 other ports  shop/sticky:http  anyone      reject
nodePort 30085/tcp      shop/sticky:http  anyone      cluster pool, masquerade
POOL                      ENDPOINTS
shop/sticky:http cluster  10.244.1.9:8080, 10.244.2.11:8080  sticky 10800s
-- packets --
FROM          TO                OUTCOME
10.244.1.100  10.96.0.15:80     10.244.1.9:8080 | 10.244.2.11:8080 sticky 10800s  # nftables N31
10.244.1.100  192.0.2.10:30085  10.244.1.9:8080 masqueraded | 10.244.2.11:8080 masqueraded sticky 10800s  # nftables N31
