# An endpoint that hints keep away from this node comes and goes without anything to do here.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.1.9  node a  forZone east
endpoint web 10.244.2.5  node b  forZone west
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24  zone east
-- then: endpoint web 10.244.2.5 node b forZone west notReady --
-- delta --
nothing
-- then: endpoint web 10.244.2.5 node b forZone west --
-- delta --
nothing
-- then: endpoint web 10.244.2.7 node b forZone west --
-- delta --
nothing
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.1.9:8080
