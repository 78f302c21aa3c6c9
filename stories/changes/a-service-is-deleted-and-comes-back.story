# A deleted Service takes its addresses along though its slices are still there; created again, it finds them.
-- proxy --
mode nftables
-- cluster --
serviceCIDR 10.96.0.0/12
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- then: gone service web --
-- delta --
changed  10.96.0.10:80/tcp, 10.96.0.10 other ports, nodePort 30080/tcp, default/web:http cluster
-- plan --
nothing
-- packets --
FROM          TO               OUTCOME
10.244.1.3    10.96.0.10:80    dropped
198.51.100.9  192.0.2.1:30080  untouched
-- then: service web NodePort clusterIP 10.96.0.10 port http 80→8080 nodePort 30080 --
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080
