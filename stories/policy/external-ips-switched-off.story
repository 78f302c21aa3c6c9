# With external IPs switched off their addresses are not served; everything else of the Service is.
-- proxy --
externalIPs off
-- cluster --
service web  externalIP 203.0.113.8  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM          TO              OUTCOME
198.51.100.9  203.0.113.8:80  untouched
10.244.1.3    10.96.0.10:80   10.244.2.5:8080
