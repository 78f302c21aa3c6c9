# Source ranges are about the load balancer's addresses: NodePort, external IP and cluster IP stay open.
-- cluster --
service web  LoadBalancer 203.0.113.7  externalIP 203.0.113.8  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  sourceRanges 198.51.100.0/24
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM     TO                                              OUTCOME
8.8.4.4  203.0.113.7:80                                  dropped
8.8.4.4  203.0.113.8:80, 192.0.2.1:30080, 10.96.0.10:80  10.244.2.5:8080 masqueraded
