# Endpoints that are shutting down but still serve are used when nothing better is left, as in every mode.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/roll  LoadBalancer 198.51.100.50  clusterIP 10.96.0.50  port http 80→8080  externalTrafficPolicy Local  healthCheckNodePort 32050
endpoint shop/roll 10.244.1.51  node node-a  ready
endpoint shop/roll 10.244.1.52  node node-a  ready
endpoint shop/roll 10.244.1.53  node node-a  terminating
endpoint shop/roll 10.244.2.51  node node-b  ready
-- packets --
FROM          TO                OUTCOME
203.0.113.5   198.51.100.50:80  10.244.1.51:8080 masqueraded | 10.244.1.52:8080 masqueraded
10.244.1.100  10.96.0.50:80     10.244.1.51:8080 masqueraded | 10.244.1.52:8080 masqueraded | 10.244.2.51:8080 masqueraded
-- then --
endpoint shop/roll 10.244.1.51  node node-a  terminating
endpoint shop/roll 10.244.1.52  node node-a  terminating
endpoint shop/roll 10.244.1.53  node node-a  terminated
-- packets --
FROM          TO                OUTCOME
203.0.113.5   198.51.100.50:80  10.244.1.51:8080 masqueraded | 10.244.1.52:8080 masqueraded
10.244.1.100  10.96.0.50:80     10.244.2.51:8080 masqueraded
-- then --
gone endpoint shop/roll 10.244.1.51
gone endpoint shop/roll 10.244.1.52
gone endpoint shop/roll 10.244.1.53
endpoint shop/roll 10.244.2.51  node node-b  terminating
-- packets --
FROM          TO                OUTCOME
203.0.113.5   198.51.100.50:80  rejected
10.244.1.100  10.96.0.50:80     10.244.2.51:8080 masqueraded
-- then: endpoint shop/roll 10.244.2.51 node node-b terminated --
-- packets --
FROM          TO                OUTCOME
203.0.113.5   198.51.100.50:80  rejected
10.244.1.100  10.96.0.50:80     rejected
-- then --
# Now with policy Cluster.
service shop/roll  LoadBalancer 198.51.100.50  clusterIP 10.96.0.50  port http 80→8080
endpoint shop/roll 10.244.1.51  node node-a  terminating
endpoint shop/roll 10.244.1.52  node node-a  terminating
endpoint shop/roll 10.244.2.51  node node-b  terminating
endpoint shop/roll 10.244.2.52  node node-b  terminated
-- packets --
FROM          TO                OUTCOME
203.0.113.5   198.51.100.50:80  10.244.1.51:8080 masqueraded | 10.244.1.52:8080 masqueraded | 10.244.2.51:8080 masqueraded
10.244.1.100  10.96.0.50:80     10.244.1.51:8080 masqueraded | 10.244.1.52:8080 masqueraded | 10.244.2.51:8080 masqueraded
