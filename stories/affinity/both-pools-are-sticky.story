# Affinity holds whichever pool a client is led to: this node's endpoints or all of them.
-- cluster --
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  externalTrafficPolicy Local  sessionAffinity ClientIP 600
endpoint web 10.244.1.8  node a
endpoint web 10.244.1.9  node a
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- plan --
FRONTEND            OWNER             FROM        THEN
10.96.0.10:80/tcp   default/web:http  local pods  cluster pool
                                      anyone      cluster pool, masquerade
nodePort 30080/tcp  default/web:http  local pods  cluster pool
                                      this host   cluster pool, masquerade
                                      anyone      local pool
POOL                      ENDPOINTS
default/web:http cluster  10.244.1.8:8080, 10.244.1.9:8080, 10.244.2.5:8080  sticky 600s
default/web:http local    10.244.1.8:8080, 10.244.1.9:8080  sticky 600s
-- packets --
FROM          TO               OUTCOME
198.51.100.9  192.0.2.1:30080  10.244.1.8:8080 | 10.244.1.9:8080 sticky 600s
10.244.1.3    192.0.2.1:30080  10.244.1.8:8080 | 10.244.1.9:8080 | 10.244.2.5:8080 sticky 600s
