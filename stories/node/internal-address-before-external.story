# A node's internal address stands for it, even if an external one is listed first; an external one will do if alone.
-- proxy --
nodePortAddresses primary
-- cluster --
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080
endpoint web 10.244.2.5  node b
node a  externalAddresses 203.0.113.77  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM          TO                  OUTCOME
198.51.100.9  192.0.2.1:30080     10.244.2.5:8080 masqueraded
198.51.100.9  203.0.113.77:30080  untouched
-- then: node a externalAddresses 203.0.113.77 podCIDR 10.244.1.0/24 --
-- packets --
FROM          TO                  OUTCOME
198.51.100.9  203.0.113.77:30080  10.244.2.5:8080 masqueraded
