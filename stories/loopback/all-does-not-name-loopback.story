# nodePortAddresses all is not a wish for loopback: it must be listed by name or block.
-- proxy --
mode nftables
nodePortAddresses all
loopbackNodePorts forwardedOrRejected
-- cluster --
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM       TO               OUTCOME
127.0.0.1  127.0.0.1:30080  rejected
192.0.2.1  192.0.2.1:30080  10.244.2.5:8080 masqueraded
-- proxy --
nodePortAddresses all,127.0.0.0/8
-- packets --
FROM       TO               OUTCOME
127.0.0.1  127.0.0.1:30080  10.244.2.5:8080 masqueraded
