# An endpoint that serves but is neither ready nor terminating is failing its probe: it is never used.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.2.5  node b  serving
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  rejected
-- then: endpoint web 10.244.2.5 node b terminating --
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080
