# One load-balancer address with different ports of different Services is no conflict, nor is the same port by protocol.
-- cluster --
service web  LoadBalancer 203.0.113.7  clusterIP 10.96.0.10  port http 80→8080
service dns  LoadBalancer 203.0.113.7  clusterIP 10.96.0.11  port dns 53/udp
service dns-tcp  LoadBalancer 203.0.113.7  clusterIP 10.96.0.12  port dns 53
endpoint web 10.244.2.5  node b
endpoint dns 10.244.2.6  node b
endpoint dns-tcp 10.244.2.7  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- diagnostics --
nothing
-- packets --
FROM          TO                  OUTCOME
198.51.100.9  203.0.113.7:80      10.244.2.5:8080 masqueraded
198.51.100.9  203.0.113.7:53/udp  10.244.2.6:53 masqueraded
198.51.100.9  203.0.113.7:53      10.244.2.7:53 masqueraded
