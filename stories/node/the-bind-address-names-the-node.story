# --bind-address, if it names an address, is the node's own: the primary NodePort address and the one ranges look for.
-- proxy --
nodePortAddresses primary
bindAddress 198.51.100.1
-- cluster --
service web  LoadBalancer 203.0.113.7  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  sourceRanges 198.51.100.0/24
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  alsoOn 198.51.100.1  podCIDR 10.244.1.0/24
-- packets --
FROM         TO                  OUTCOME
8.8.4.4      198.51.100.1:30080  10.244.2.5:8080 masqueraded
8.8.4.4      192.0.2.1:30080     untouched
# The load balancer's own address may be a source, since this node is in a range.
203.0.113.7  203.0.113.7:80      10.244.2.5:8080 masqueraded
