# No endpoint here and the Local policy: outsiders are dropped, and whoever is let through still follows the hints.
-- cluster --
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  externalTrafficPolicy Local
endpoint web 10.244.2.5  node b  forZone east
endpoint web 10.244.3.5  node c  forZone west
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24  zone east
-- packets --
FROM          TO               OUTCOME
198.51.100.9  192.0.2.1:30080  dropped
10.244.1.3    192.0.2.1:30080  10.244.2.5:8080
192.0.2.1     192.0.2.1:30080  10.244.2.5:8080 masqueraded
