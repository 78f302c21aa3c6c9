# An external address that is the node's own is not bound again: the host's other ports on it stay reachable.
-- proxy --
mode ipvs
-- cluster --
service web  LoadBalancer 192.0.2.1  externalIP 192.0.2.2  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  alsoOn 192.0.2.2  podCIDR 10.244.1.0/24
-- packets --
FROM          TO                                          OUTCOME
198.51.100.9  192.0.2.1:80, 192.0.2.2:80                  10.244.2.5:8080 masqueraded
198.51.100.9  192.0.2.1:22, 192.0.2.2:22, 192.0.2.1 icmp  untouched
