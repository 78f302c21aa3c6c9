# No endpoint at all: everybody is refused. The host's packets to the external IP leave the node.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/lbe  LoadBalancer 198.51.100.22  externalIP 198.51.100.31  clusterIP 10.96.0.20  port http 80→8080  nodePort 30090  sourceRanges 203.0.113.0/24
-- plan --
FRONTEND                     OWNER          FROM                    THEN
10.96.0.20:80/tcp            shop/lbe:http  anyone                  reject
198.51.100.22:80/tcp         shop/lbe:http  outside 203.0.113.0/24  reject
                                            anyone                  reject
198.51.100.31:80/tcp         shop/lbe:http  this host               pass
                                            anyone                  reject
nodePort 30090/tcp           shop/lbe:http  anyone                  reject
loopback nodePort 30090/tcp  shop/lbe:http  anyone                  reject
-- packets --
FROM                                TO                                  OUTCOME
203.0.113.5, 8.8.4.4, 10.244.1.100  198.51.100.22:80                    rejected
192.0.2.10                          198.51.100.22:80                    rejected
192.0.2.10                          198.51.100.31:80                    untouched
10.244.1.100                        198.51.100.31:80                    rejected
192.0.2.10                          192.0.2.10:30090                    rejected
192.0.2.10                          10.96.0.20:80                       rejected
