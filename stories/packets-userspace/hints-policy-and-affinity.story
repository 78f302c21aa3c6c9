# Hints, internalTrafficPolicy and session affinity choose endpoints as they do in every mode.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/hinted  clusterIP 10.96.0.17  port http 80→8080
endpoint shop/hinted 10.244.1.20  node node-a  forZone zone-a
endpoint shop/hinted 10.244.2.20  node node-b  forZone zone-b
endpoint shop/hinted 10.244.3.20  node node-c  forZone zone-a
service shop/itl  clusterIP 10.96.0.19  port 80→8080  internalTrafficPolicy Local
endpoint shop/itl 10.244.1.30  node node-a
endpoint shop/itl 10.244.2.30  node node-b
service shop/sticky  clusterIP 10.96.0.15  port http 80→8080  sessionAffinity ClientIP 10800
endpoint shop/sticky 10.244.1.9  node node-a
endpoint shop/sticky 10.244.2.11  node node-b
-- plan --
FRONTEND           OWNER             FROM        THEN
10.96.0.15:80/tcp  shop/sticky:http  local pods  cluster pool, masquerade
                                     anyone      cluster pool, masquerade
10.96.0.17:80/tcp  shop/hinted:http  local pods  cluster pool, masquerade
                                     anyone      cluster pool, masquerade
10.96.0.19:80/tcp  shop/itl          local pods  local pool, masquerade
                                     anyone      local pool, masquerade
POOL                      ENDPOINTS
shop/hinted:http cluster  10.244.1.20:8080, 10.244.3.20:8080
shop/itl local            10.244.1.30:8080
shop/sticky:http cluster  10.244.1.9:8080, 10.244.2.11:8080  sticky 10800s
-- packets --
FROM          TO             OUTCOME
10.244.1.100  10.96.0.17:80  10.244.1.20:8080 masqueraded | 10.244.3.20:8080 masqueraded
10.244.1.100  10.96.0.19:80  10.244.1.30:8080 masqueraded
203.0.113.5   10.96.0.19:80  10.244.1.30:8080 masqueraded
10.244.1.100  10.96.0.15:80  10.244.1.9:8080 masqueraded | 10.244.2.11:8080 masqueraded sticky 10800s
-- then: gone endpoint shop/itl 10.244.1.30 --
-- packets --
FROM          TO             OUTCOME
10.244.1.100  10.96.0.19:80  rejected
-- then: gone endpoint shop/itl 10.244.2.30 --
-- packets --
FROM          TO             OUTCOME
10.244.1.100  10.96.0.19:80  rejected
