# Only ready endpoints take part: one of them being unready neither switches hints off nor keeps them on.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.1.9  node a  forZone east
endpoint web 10.244.2.5  node b  forZone west
endpoint web 10.244.3.5  node c  notReady
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24  zone east
-- packets --
# The endpoint without a hint is not ready, so the hints stand.
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.1.9:8080
-- then: endpoint web 10.244.1.9 node a forZone east notReady --
-- packets --
# The zone's only endpoint is not ready, so the hints fall.
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080
