# A virtual server has one pool for everybody: with policy Local, pods and the host too reach this node's endpoints only.
-- proxy --
mode ipvs
-- cluster --
service web  NodePort  externalIP 203.0.113.8  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  externalTrafficPolicy Local
endpoint web 10.244.1.9  node a
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- plan --
FRONTEND                 OWNER             FROM        THEN
10.96.0.10:80/tcp        default/web:http  local pods  cluster pool
                                           anyone      cluster pool, masquerade
203.0.113.8:80/tcp       default/web:http  anyone      local pool
10.96.0.10 other ports   default/web:http  anyone      reject
203.0.113.8 other ports  default/web:http  anyone      reject
nodePort 30080/tcp       default/web:http  anyone      local pool
POOL                      ENDPOINTS
default/web:http cluster  10.244.1.9:8080, 10.244.2.5:8080
default/web:http local    10.244.1.9:8080
-- packets --
FROM                                 TO                               OUTCOME
198.51.100.9, 10.244.1.3, 192.0.2.1  192.0.2.1:30080, 203.0.113.8:80  10.244.1.9:8080
10.244.1.3                           10.96.0.10:80                    10.244.1.9:8080 | 10.244.2.5:8080
198.51.100.9                         10.96.0.10:80                    10.244.1.9:8080 masqueraded | 10.244.2.5:8080 masqueraded
