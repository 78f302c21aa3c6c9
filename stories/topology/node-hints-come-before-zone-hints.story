# An endpoint hinted for this very node is preferred over the rest of the zone. One ready endpoint without a node hint
# and the zone decides; one without any hint and nothing does.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.1.9  node a  forZone east  forNode a
endpoint web 10.244.2.5  node b  forZone west  forNode b
endpoint web 10.244.3.5  node c  forZone east  forNode c
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24  zone east
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.1.9:8080
-- then: endpoint web 10.244.2.5 node b forZone west --
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.1.9:8080 | 10.244.3.5:8080
-- then: endpoint web 10.244.2.5 node b --
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.1.9:8080 | 10.244.2.5:8080 | 10.244.3.5:8080
