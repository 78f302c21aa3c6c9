# externalTrafficPolicy Cluster, the default: every external address leads to every endpoint, and the endpoint sees the node.
-- cluster --
service web  LoadBalancer 203.0.113.7  externalIP 203.0.113.8  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080
endpoint web 10.244.1.9  node a
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- plan --
FRONTEND            OWNER             FROM        THEN
10.96.0.10:80/tcp   default/web:http  local pods  cluster pool
                                      anyone      cluster pool, masquerade
203.0.113.7:80/tcp  default/web:http  anyone      cluster pool, masquerade
203.0.113.8:80/tcp  default/web:http  anyone      cluster pool, masquerade
nodePort 30080/tcp  default/web:http  anyone      cluster pool, masquerade
POOL                      ENDPOINTS
default/web:http cluster  10.244.1.9:8080, 10.244.2.5:8080
-- packets --
FROM                   TO                                               OUTCOME
198.51.100.9           203.0.113.7:80, 203.0.113.8:80, 192.0.2.1:30080  10.244.1.9:8080 masqueraded | 10.244.2.5:8080 masqueraded
10.244.1.3, 192.0.2.1  203.0.113.7:80, 203.0.113.8:80, 192.0.2.1:30080  10.244.1.9:8080 masqueraded | 10.244.2.5:8080 masqueraded
