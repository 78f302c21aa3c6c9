# Local pods are told by the node's pod CIDR: when it changes, so does who is masqueraded.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080
10.244.7.3  10.96.0.10:80  10.244.2.5:8080 masqueraded
-- then: node a addresses 192.0.2.1 podCIDR 10.244.7.0/24 --
-- delta --
changed  node
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080 masqueraded
10.244.7.3  10.96.0.10:80  10.244.2.5:8080
