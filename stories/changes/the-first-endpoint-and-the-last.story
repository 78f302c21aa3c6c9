# From no endpoint to one the Service stops refusing, and starts again with the last one's end.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  rejected
-- then: endpoint web 10.244.2.5 node b --
-- delta --
changed  10.96.0.10:80/tcp, default/web:http cluster
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080
-- then: endpoint web 10.244.2.5 node b notReady --
-- delta --
changed  10.96.0.10:80/tcp, default/web:http cluster
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  rejected
