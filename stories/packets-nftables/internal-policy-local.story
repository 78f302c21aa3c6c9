# internalTrafficPolicy Local: the cluster IP leads to this node's endpoints only. None here: dropped. None anywhere: rejected.
-- proxy --
mode nftables
nodePortAddresses primary
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/itl  clusterIP 10.96.0.19  port 80→8080  internalTrafficPolicy Local
endpoint shop/itl 10.244.1.30  node node-a
endpoint shop/itl 10.244.2.30  node node-b
-- plan --
FRONTEND                OWNER     FROM        THEN
10.96.0.19:80/tcp       shop/itl  local pods  local pool
                                  anyone      local pool, masquerade
10.96.0.19 other ports  shop/itl  anyone      reject
POOL            ENDPOINTS
shop/itl local  10.244.1.30:8080
-- packets --
FROM          TO             OUTCOME
10.244.1.100  10.96.0.19:80  10.244.1.30:8080  # nftables N23
203.0.113.5   10.96.0.19:80  10.244.1.30:8080 masqueraded  # nftables N24
192.0.2.10    10.96.0.19:80  10.244.1.30:8080 masqueraded  # nftables N25
-- then: gone endpoint shop/itl 10.244.1.30 --
-- plan --
FRONTEND                OWNER     FROM    THEN
10.96.0.19:80/tcp       shop/itl  anyone  drop
10.96.0.19 other ports  shop/itl  anyone  reject
-- packets --
FROM          TO             OUTCOME
10.244.1.100  10.96.0.19:80  dropped  # nftables N26
-- then: gone endpoint shop/itl 10.244.2.30 --
-- packets --
FROM          TO             OUTCOME
10.244.1.100  10.96.0.19:80  rejected  # nftables N27
