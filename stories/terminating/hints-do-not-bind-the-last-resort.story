# When only terminating endpoints are left, all of them are used: hints are for better days.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.1.9  node a  forZone east  terminating
endpoint web 10.244.2.5  node b  forZone west  terminating
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24  zone east
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.1.9:8080 | 10.244.2.5:8080
