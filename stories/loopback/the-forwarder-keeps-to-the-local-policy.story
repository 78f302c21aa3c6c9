# With externalTrafficPolicy Local the forwarder knows only this node's endpoints; the host is let through everywhere else.
-- proxy --
mode nftables
nodePortAddresses primary,localhost
loopbackNodePorts forwardedOrRejected
-- cluster --
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  externalTrafficPolicy Local  sessionAffinity ClientIP 600
endpoint web 10.244.1.9  node a
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM       TO               OUTCOME
127.0.0.1  127.0.0.1:30080  10.244.1.9:8080 masqueraded sticky 600s
192.0.2.1  192.0.2.1:30080  10.244.1.9:8080 masqueraded | 10.244.2.5:8080 masqueraded sticky 600s
-- then: gone endpoint web 10.244.1.9 --
-- packets --
FROM       TO               OUTCOME
127.0.0.1  127.0.0.1:30080  untouched
192.0.2.1  192.0.2.1:30080  10.244.2.5:8080 masqueraded sticky 600s
