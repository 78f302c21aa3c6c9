# Zone hints need to know this node's zone: without the label, or with an empty one, all endpoints are used.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.1.9  node a  forZone east
endpoint web 10.244.2.5  node b  forZone west
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.1.9:8080 | 10.244.2.5:8080
-- then: node a addresses 192.0.2.1 podCIDR 10.244.1.0/24 zone "" --
-- delta --
nothing
-- then: node a addresses 192.0.2.1 podCIDR 10.244.1.0/24 zone west --
-- delta --
changed  10.96.0.10:80/tcp, default/web:http cluster
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080
