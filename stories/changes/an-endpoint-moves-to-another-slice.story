# The control plane packs slices anew: as long as the endpoints are the same, there is nothing to do.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.2.5  node b  slice one
endpoint web 10.244.3.5  node c  slice two
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- then: gone endpoint web 10.244.3.5 slice two; endpoint web 10.244.3.5 node c slice one --
-- delta --
nothing
-- then: endpoint web 10.244.3.5 node c slice two --
-- delta --
nothing
-- packets --
# Named by two slices it is still one endpoint.
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080 | 10.244.3.5:8080
