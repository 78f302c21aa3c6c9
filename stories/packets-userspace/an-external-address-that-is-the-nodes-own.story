# Small clusters use the node's own address as load balancer. The host is refused there like everybody else; only its packets to
# an external IP that the node does not have leave the node.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/klipper  LoadBalancer 192.0.2.10 198.51.100.60  clusterIP 10.96.0.60  port http 80→8080
service shop/own  externalIP 192.0.2.77,198.51.100.61  clusterIP 10.96.0.61  port http 80→8080
-- plan --
FRONTEND              OWNER              FROM       THEN
10.96.0.60:80/tcp     shop/klipper:http  anyone     reject
192.0.2.10:80/tcp     shop/klipper:http  anyone     reject
198.51.100.60:80/tcp  shop/klipper:http  anyone     reject
10.96.0.61:80/tcp     shop/own:http      anyone     reject
192.0.2.77:80/tcp     shop/own:http      anyone     reject
198.51.100.61:80/tcp  shop/own:http      this host  pass
                                         anyone     reject
-- packets --
FROM         TO                                  OUTCOME
192.0.2.10   192.0.2.10:80, 192.0.2.77:80        rejected
192.0.2.10   198.51.100.60:80                    rejected
192.0.2.10   198.51.100.61:80                    untouched
203.0.113.5  192.0.2.10:80, 198.51.100.60:80     rejected
