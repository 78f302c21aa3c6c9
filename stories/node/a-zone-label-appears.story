# The zone label is often set after the proxy has started: hints take effect the moment it appears.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
service plain  clusterIP 10.96.0.11  port http 80→8080
endpoint web 10.244.1.9  node a  forZone east
endpoint web 10.244.2.5  node b  forZone west
endpoint plain 10.244.2.6  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.1.9:8080 | 10.244.2.5:8080
-- then: node a addresses 192.0.2.1 podCIDR 10.244.1.0/24 zone east --
-- delta --
changed  10.96.0.10:80/tcp, default/web:http cluster
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.1.9:8080
