# A Node that suddenly has no addresses and no pod CIDRs (its status was reset, or it was created anew and is not filled in yet)
# keeps the last known ones: NodePorts are not opened on every address, and local pods stay local.
-- proxy --
nodePortAddresses primary
detectLocal NodeCIDR
-- cluster --
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  alsoOn 192.0.2.2  podCIDR 10.244.1.0/24
-- packets --
FROM          TO               OUTCOME
198.51.100.9  192.0.2.1:30080  10.244.2.5:8080 masqueraded
198.51.100.9  192.0.2.2:30080  untouched
10.244.1.9    10.96.0.10:80    10.244.2.5:8080
198.51.100.9  10.96.0.10:80    10.244.2.5:8080 masqueraded
-- then: node a alsoOn 192.0.2.1,192.0.2.2 --
-- packets --
FROM          TO               OUTCOME
198.51.100.9  192.0.2.1:30080  10.244.2.5:8080 masqueraded
198.51.100.9  192.0.2.2:30080  untouched
10.244.1.9    10.96.0.10:80    10.244.2.5:8080
198.51.100.9  10.96.0.10:80    10.244.2.5:8080 masqueraded
