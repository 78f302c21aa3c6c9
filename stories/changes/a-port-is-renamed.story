# A port's name is part of who it is: renamed, its addresses stay but belong to the new name, with a pool of its own.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- then: service web clusterIP 10.96.0.10 port web 80→8080 --
-- delta --
changed  10.96.0.10:80/tcp, default/web:http cluster, default/web:web cluster
-- plan --
FRONTEND           OWNER            FROM        THEN
10.96.0.10:80/tcp  default/web:web  local pods  cluster pool
                                    anyone      cluster pool, masquerade
POOL                     ENDPOINTS
default/web:web cluster  10.244.2.5:8080
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080
