# internalTrafficPolicy Local without an endpoint here drops, and the count behind the metric says how often that is so.
-- cluster --
service agent  clusterIP 10.96.0.20  port http 80→8080  port admin 81→8081  internalTrafficPolicy Local
endpoint agent 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- counts --
IPv4 without local endpoints: internal 2, external 0
IPv6 without local endpoints: internal 0, external 0
-- packets --
FROM                   TO                            OUTCOME
10.244.1.3, 192.0.2.1  10.96.0.20:80, 10.96.0.20:81  dropped
-- then: endpoint agent 10.244.1.9 node a --
-- counts --
IPv4 without local endpoints: internal 0, external 0
IPv6 without local endpoints: internal 0, external 0
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.20:80  10.244.1.9:8080
192.0.2.1   10.96.0.20:81  10.244.1.9:8081 masqueraded
