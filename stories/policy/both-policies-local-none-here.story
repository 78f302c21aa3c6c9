# Both policies Local and no endpoint here: the cluster IP drops even pods, while the NodePort lets pods and the host through.
-- cluster --
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  internalTrafficPolicy Local  externalTrafficPolicy Local
endpoint web 10.244.2.5  node b
endpoint web 10.244.3.5  node c
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- plan --
FRONTEND            OWNER             FROM        THEN
10.96.0.10:80/tcp   default/web:http  anyone      drop
nodePort 30080/tcp  default/web:http  local pods  cluster pool
                                      this host   cluster pool, masquerade
                                      anyone      drop
POOL                      ENDPOINTS
default/web:http cluster  10.244.2.5:8080, 10.244.3.5:8080
-- counts --
IPv4 without local endpoints: internal 1, external 1
IPv6 without local endpoints: internal 0, external 0
-- packets --
FROM                                 TO               OUTCOME
10.244.1.3, 192.0.2.1, 198.51.100.9  10.96.0.10:80    dropped
10.244.1.3                           192.0.2.1:30080  10.244.2.5:8080 | 10.244.3.5:8080
192.0.2.1                            192.0.2.1:30080  10.244.2.5:8080 masqueraded | 10.244.3.5:8080 masqueraded
198.51.100.9                         192.0.2.1:30080  dropped
