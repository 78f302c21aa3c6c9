# Local policy with no local endpoint: outsiders are dropped, pods still get through.
-- cluster --
service web  LoadBalancer 203.0.113.7  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  externalTrafficPolicy Local
endpoint web 10.244.2.5  node b  ready
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- plan --
FRONTEND            OWNER             FROM        THEN
10.96.0.10:80/tcp   default/web:http  local pods  cluster pool
                                      anyone      cluster pool, masquerade
203.0.113.7:80/tcp  default/web:http  local pods  cluster pool
                                      this host   cluster pool, masquerade
                                      anyone      drop
nodePort 30080/tcp  default/web:http  (as 203.0.113.7:80/tcp)
POOL                      ENDPOINTS
default/web:http cluster  10.244.2.5:8080
-- packets --
FROM           TO                 OUTCOME
198.51.100.9   203.0.113.7:80     dropped
10.244.1.3     203.0.113.7:80     10.244.2.5:8080
192.0.2.1      192.0.2.1:30080    10.244.2.5:8080 masqueraded
-- then: endpoint web 10.244.1.9 node a ready --
-- delta --
changed  10.96.0.10:80/tcp, 203.0.113.7:80/tcp, nodePort 30080/tcp, default/web:http cluster, default/web:http local
-- diagnostics --
nothing
