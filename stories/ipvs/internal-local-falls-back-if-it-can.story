# internalTrafficPolicy Local without an endpoint here: refused, unless an external address has brought all endpoints in.
-- proxy --
mode ipvs
-- cluster --
service inside  clusterIP 10.96.0.10  port http 80→8080  internalTrafficPolicy Local
service exposed  NodePort  clusterIP 10.96.0.11  port http 80→8080  nodePort 30080  internalTrafficPolicy Local
endpoint inside 10.244.2.5  node b
endpoint exposed 10.244.2.6  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM          TO               OUTCOME
10.244.1.3    10.96.0.10:80    rejected
10.244.1.3    10.96.0.11:80    10.244.2.6:8080
198.51.100.9  192.0.2.1:30080  10.244.2.6:8080 masqueraded
