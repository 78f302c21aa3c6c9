# A node being drained: its last endpoint still serves outsiders, while pods here already go to the ready one elsewhere.
-- cluster --
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  externalTrafficPolicy Local
endpoint web 10.244.1.7  node a  notReady
endpoint web 10.244.1.9  node a  terminating
endpoint web 10.244.2.5  node b  ready
endpoint web 10.244.3.5  node c  terminating
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- plan --
FRONTEND            OWNER             FROM        THEN
10.96.0.10:80/tcp   default/web:http  local pods  cluster pool
                                      anyone      cluster pool, masquerade
nodePort 30080/tcp  default/web:http  local pods  cluster pool
                                      this host   cluster pool, masquerade
                                      anyone      local pool
POOL                      ENDPOINTS
default/web:http cluster  10.244.2.5:8080
default/web:http local    10.244.1.9:8080
-- packets --
FROM          TO                              OUTCOME
198.51.100.9  192.0.2.1:30080                 10.244.1.9:8080
10.244.1.3    192.0.2.1:30080, 10.96.0.10:80  10.244.2.5:8080
-- then: gone endpoint web 10.244.1.9 --
-- counts --
IPv4 without local endpoints: internal 0, external 1
IPv6 without local endpoints: internal 0, external 0
-- packets --
FROM          TO               OUTCOME
198.51.100.9  192.0.2.1:30080  dropped
