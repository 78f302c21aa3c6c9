# `localhost` in nodePortAddresses: the loopback addresses that are on an interface serve NodePorts, the rest of 127.0.0.0/8 does
# not. Without a list all of it does.
-- proxy --
mode userspace
nodePortAddresses localhost
loopbackNodePorts relayed
-- cluster --
node a  addresses 192.0.2.10
service web  NodePort  clusterIP 10.96.0.10  port 80→8080  nodePort 30080
endpoint web 10.244.1.5  node a  ready
-- packets --
FROM       TO                OUTCOME
127.0.0.1  127.0.0.1:30080   10.244.1.5:8080 masqueraded
127.0.0.1  127.0.0.2:30080   untouched
203.0.113.5  192.0.2.10:30080  untouched
-- proxy --
nodePortAddresses all
-- packets --
FROM       TO                OUTCOME
127.0.0.1  127.0.0.1:30080   10.244.1.5:8080 masqueraded
127.0.0.1  127.0.0.2:30080   10.244.1.5:8080 masqueraded
203.0.113.5  192.0.2.10:30080  10.244.1.5:8080 masqueraded
