# A hint may name several zones: the endpoint is used in each of them.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.1.9  node b  forZone east,west,north
endpoint web 10.244.2.5  node c  forZone west,north
endpoint web 10.244.3.5  node d  forZone west,south
endpoint web 10.244.4.5  node e  forZone north
node a  addresses 192.0.2.1  podCIDR 10.244.9.0/24  zone north
-- packets --
FROM        TO             OUTCOME
10.244.9.3  10.96.0.10:80  10.244.1.9:8080 | 10.244.2.5:8080 | 10.244.4.5:8080
