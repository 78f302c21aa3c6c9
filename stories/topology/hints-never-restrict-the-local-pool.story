# With the Local policy outsiders reach every endpoint on this node, hinted elsewhere or not; pods follow the hints.
-- cluster --
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  externalTrafficPolicy Local
endpoint web 10.244.1.8  node a  forZone east
endpoint web 10.244.1.9  node a  forZone west
endpoint web 10.244.2.5  node b  forZone west
endpoint web 10.244.3.5  node c  forZone east
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24  zone east
-- plan --
FRONTEND            OWNER             FROM        THEN
10.96.0.10:80/tcp   default/web:http  local pods  cluster pool
                                      anyone      cluster pool, masquerade
nodePort 30080/tcp  default/web:http  local pods  cluster pool
                                      this host   cluster pool, masquerade
                                      anyone      local pool
POOL                      ENDPOINTS
default/web:http cluster  10.244.1.8:8080, 10.244.3.5:8080
default/web:http local    10.244.1.8:8080, 10.244.1.9:8080
-- packets --
FROM          TO                              OUTCOME
198.51.100.9  192.0.2.1:30080                 10.244.1.8:8080 | 10.244.1.9:8080
10.244.1.3    192.0.2.1:30080, 10.96.0.10:80  10.244.1.8:8080 | 10.244.3.5:8080
