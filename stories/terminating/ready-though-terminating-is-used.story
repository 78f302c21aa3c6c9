# publishNotReadyAddresses makes an endpoint ready even while it terminates: it counts as ready, not as last resort.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.1.9  node a  readyTerminating
endpoint web 10.244.2.5  node b  ready
endpoint web 10.244.3.5  node c  terminating
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.1.9:8080 | 10.244.2.5:8080
