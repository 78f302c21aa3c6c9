# Ranges are looked at first, then the Local policy: outside the ranges even pods are dropped, inside them the client's
# address is kept.
-- cluster --
service web  LoadBalancer 203.0.113.7  clusterIP 10.96.0.10  port http 80→8080  externalTrafficPolicy Local  healthCheckNodePort 32080  sourceRanges " 198.51.100.0/24,10.244.1.128/25"
endpoint web 10.244.1.9  node a
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- plan --
FRONTEND            OWNER             FROM                                      THEN
10.96.0.10:80/tcp   default/web:http  local pods                                cluster pool
                                      anyone                                    cluster pool, masquerade
203.0.113.7:80/tcp  default/web:http  outside 198.51.100.0/24, 10.244.1.128/25  drop
                                      local pods                                cluster pool
                                      this host                                 cluster pool, masquerade
                                      anyone                                    local pool
POOL                      ENDPOINTS
default/web:http cluster  10.244.1.9:8080, 10.244.2.5:8080
default/web:http local    10.244.1.9:8080
HEALTH CHECK  PORT   LOCAL ENDPOINTS
default/web   32080  1
-- packets --
FROM                            TO              OUTCOME
198.51.100.9                    203.0.113.7:80  10.244.1.9:8080
8.8.4.4, 10.244.1.3, 192.0.2.1  203.0.113.7:80  dropped
10.244.1.200                    203.0.113.7:80  10.244.1.9:8080 | 10.244.2.5:8080
