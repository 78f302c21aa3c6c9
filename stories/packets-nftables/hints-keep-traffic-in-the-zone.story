# Zone hints are followed while every ready endpoint has one and this zone is among them; node hints come first.
-- proxy --
mode nftables
nodePortAddresses primary
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/hinted  clusterIP 10.96.0.17  port http 80→8080
endpoint shop/hinted 10.244.1.20  node node-a  forZone zone-a
endpoint shop/hinted 10.244.2.20  node node-b  forZone zone-b
endpoint shop/hinted 10.244.3.20  node node-c  forZone zone-a
-- packets --
FROM          TO             OUTCOME
10.244.1.100  10.96.0.17:80  10.244.1.20:8080 | 10.244.3.20:8080  # nftables N18
-- then: node node-a addresses 192.0.2.10 alsoOn 192.0.2.77 zone zone-c --
-- packets --
FROM          TO             OUTCOME
10.244.1.100  10.96.0.17:80  10.244.1.20:8080 | 10.244.2.20:8080 | 10.244.3.20:8080  # nftables N19
-- then --
# Back in zone-a, but one ready endpoint has lost its hint.
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
endpoint shop/hinted 10.244.2.20  node node-b
-- packets --
FROM          TO             OUTCOME
10.244.1.100  10.96.0.17:80  10.244.1.20:8080 | 10.244.2.20:8080 | 10.244.3.20:8080  # nftables N20
-- then --
# All hinted, and this zone's endpoints are not ready: the decision is made over the ready ones, so hints do not count.
endpoint shop/hinted 10.244.1.20  node node-a  forZone zone-a  notReady
endpoint shop/hinted 10.244.2.20  node node-b  forZone zone-b
endpoint shop/hinted 10.244.3.20  node node-c  forZone zone-a  notReady
-- packets --
FROM          TO             OUTCOME
10.244.1.100  10.96.0.17:80  10.244.2.20:8080  # nftables N22
-- then --
# Node hints on all, one of them for this node.
endpoint shop/hinted 10.244.1.20  node node-a  forZone zone-a  forNode node-a
endpoint shop/hinted 10.244.2.20  node node-b  forZone zone-b  forNode node-b
endpoint shop/hinted 10.244.3.20  node node-c  forZone zone-a  forNode node-c
-- packets --
FROM          TO             OUTCOME
10.244.1.100  10.96.0.17:80  10.244.1.20:8080  # nftables N21
