# On a ClusterIP Service externalTrafficPolicy means something only once the Service has an external IP.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080  externalTrafficPolicy Local
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- plan --
FRONTEND           OWNER             FROM        THEN
10.96.0.10:80/tcp  default/web:http  local pods  cluster pool
                                     anyone      cluster pool, masquerade
POOL                      ENDPOINTS
default/web:http cluster  10.244.2.5:8080
-- counts --
IPv4 without local endpoints: internal 0, external 0
IPv6 without local endpoints: internal 0, external 0
-- then --
service web  clusterIP 10.96.0.10  port http 80→8080  externalTrafficPolicy Local  externalIP 203.0.113.8
-- plan --
FRONTEND            OWNER             FROM        THEN
10.96.0.10:80/tcp   default/web:http  local pods  cluster pool
                                      anyone      cluster pool, masquerade
203.0.113.8:80/tcp  default/web:http  local pods  cluster pool
                                      this host   cluster pool, masquerade
                                      anyone      drop
POOL                      ENDPOINTS
default/web:http cluster  10.244.2.5:8080
-- counts --
IPv4 without local endpoints: internal 0, external 1
IPv6 without local endpoints: internal 0, external 0
-- packets --
FROM          TO                             OUTCOME
198.51.100.9  203.0.113.8:80                 dropped
10.244.1.3    203.0.113.8:80, 10.96.0.10:80  10.244.2.5:8080
