# No endpoints: the process accepts and closes at once. Addresses that do not accept NodePorts are left alone.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/empty  NodePort  clusterIP 10.96.0.16  port http 80→8080  nodePort 30099
-- packets --
FROM                                   TO                OUTCOME
10.244.1.100, 192.0.2.10, 203.0.113.5  10.96.0.16:80     rejected
203.0.113.5, 10.244.1.100, 192.0.2.10  192.0.2.10:30099  rejected
203.0.113.5                            192.0.2.77:30099  rejected
-- proxy --
nodePortAddresses 192.0.2.10/32
-- packets --
FROM         TO                OUTCOME
203.0.113.5  192.0.2.77:30099  untouched
127.0.0.1    127.0.0.1:30099   untouched
