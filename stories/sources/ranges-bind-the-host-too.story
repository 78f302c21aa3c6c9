# Source ranges that leave out this node keep its own processes, and its pods, away from the load balancer's address.
-- cluster --
service web  LoadBalancer 203.0.113.7  clusterIP 10.96.0.10  port http 80→8080  sourceRanges 198.51.100.0/24
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- plan --
FRONTEND            OWNER             FROM                     THEN
10.96.0.10:80/tcp   default/web:http  local pods               cluster pool
                                      anyone                   cluster pool, masquerade
203.0.113.7:80/tcp  default/web:http  outside 198.51.100.0/24  drop
                                      anyone                   cluster pool, masquerade
POOL                      ENDPOINTS
default/web:http cluster  10.244.2.5:8080
-- packets --
FROM                                TO              OUTCOME
198.51.100.9                        203.0.113.7:80  10.244.2.5:8080 masqueraded
192.0.2.1, 10.244.1.3, 203.0.113.7  203.0.113.7:80  dropped
192.0.2.1                           10.96.0.10:80   10.244.2.5:8080 masqueraded
