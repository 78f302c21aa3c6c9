# Endpoints on another port are other endpoints: the pool changes, the addresses do not.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- then: service web clusterIP 10.96.0.10 port http 80→9090 --
-- delta --
changed  10.96.0.10:80/tcp, default/web:http cluster
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:9090
