# Shutting down is not gone: as long as an endpoint serves, its flows live. When it stops serving, they go.
-- cluster --
service dns  clusterIP 10.96.0.53  port dns 53/udp
endpoint dns 10.244.1.53  node a
endpoint dns 10.244.2.53  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- then: endpoint dns 10.244.2.53 node b terminating --
-- packets --
FROM        TO                 OUTCOME
10.244.1.3  10.96.0.53:53/udp  10.244.1.53:53
-- flows --
FLOW               ANSWERED BY     THEN
udp 10.96.0.53:53  10.244.2.53:53  keep
-- then: endpoint dns 10.244.2.53 node b terminated --
-- flows --
FLOW               ANSWERED BY     THEN
udp 10.96.0.53:53  10.244.2.53:53  delete
udp 10.96.0.53:53  10.244.1.53:53  keep
