# A load balancer that asks this node is told how many endpoints are ready here: not elsewhere, and not on their way out.
-- cluster --
service web  LoadBalancer 203.0.113.7  clusterIP 10.96.0.10  port http 80→8080  externalTrafficPolicy Local  healthCheckNodePort 32080
endpoint web 10.244.1.8  node a
endpoint web 10.244.1.9  node a
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- plan --
FRONTEND            OWNER             FROM        THEN
10.96.0.10:80/tcp   default/web:http  local pods  cluster pool
                                      anyone      cluster pool, masquerade
203.0.113.7:80/tcp  default/web:http  local pods  cluster pool
                                      this host   cluster pool, masquerade
                                      anyone      local pool
POOL                      ENDPOINTS
default/web:http cluster  10.244.1.8:8080, 10.244.1.9:8080, 10.244.2.5:8080
default/web:http local    10.244.1.8:8080, 10.244.1.9:8080
HEALTH CHECK  PORT   LOCAL ENDPOINTS
default/web   32080  2
-- then: endpoint web 10.244.1.9 node a terminating --
-- delta --
changed  10.96.0.10:80/tcp, 203.0.113.7:80/tcp, default/web:http cluster, default/web:http local, health check of default/web
-- then: endpoint web 10.244.1.8 node a terminating --
# Zero is said although both still serve: new connections should go elsewhere, those that come are still answered.
-- plan --
FRONTEND            OWNER             FROM        THEN
10.96.0.10:80/tcp   default/web:http  local pods  cluster pool
                                      anyone      cluster pool, masquerade
203.0.113.7:80/tcp  default/web:http  local pods  cluster pool
                                      this host   cluster pool, masquerade
                                      anyone      local pool
POOL                      ENDPOINTS
default/web:http cluster  10.244.2.5:8080
default/web:http local    10.244.1.8:8080, 10.244.1.9:8080
HEALTH CHECK  PORT   LOCAL ENDPOINTS
default/web   32080  0
-- packets --
FROM          TO              OUTCOME
198.51.100.9  203.0.113.7:80  10.244.1.8:8080 | 10.244.1.9:8080
