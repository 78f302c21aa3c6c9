# Slices may be heard of before their Service: they wait, and nothing is lost.
-- cluster --
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
endpoint web 10.244.2.5  node b  port http 8080
-- plan --
nothing
-- then: service web clusterIP 10.96.0.10 port http 80→8080 --
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080
