# Some set-ups list the load balancer's address as external IP as well. The source ranges hold for it.
-- cluster --
service web  LoadBalancer 203.0.113.7  externalIP 203.0.113.7  clusterIP 10.96.0.10  port http 80→8080  sourceRanges 198.51.100.0/24
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM          TO              OUTCOME
198.51.100.9  203.0.113.7:80  10.244.2.5:8080 masqueraded
8.8.4.4       203.0.113.7:80  dropped
