# ipvs mode never drops for lack of local endpoints: a virtual server with policy Local then has all endpoints.
-- proxy --
mode ipvs
-- cluster --
service web  LoadBalancer 203.0.113.7  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  externalTrafficPolicy Local  healthCheckNodePort 32080
endpoint web 10.244.2.5  node b
endpoint web 10.244.3.5  node c
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- plan --
FRONTEND                 OWNER             FROM        THEN
10.96.0.10:80/tcp        default/web:http  local pods  cluster pool
                                           anyone      cluster pool, masquerade
203.0.113.7:80/tcp       default/web:http  anyone      cluster pool
10.96.0.10 other ports   default/web:http  anyone      reject
203.0.113.7 other ports  default/web:http  anyone      reject
nodePort 30080/tcp       default/web:http  anyone      cluster pool
POOL                      ENDPOINTS
default/web:http cluster  10.244.2.5:8080, 10.244.3.5:8080
HEALTH CHECK  PORT   LOCAL ENDPOINTS
default/web   32080  0
-- counts --
IPv4 without local endpoints: internal 0, external 1
IPv6 without local endpoints: internal 0, external 0
-- packets --
FROM          TO                               OUTCOME
198.51.100.9  203.0.113.7:80, 192.0.2.1:30080  10.244.2.5:8080 | 10.244.3.5:8080
