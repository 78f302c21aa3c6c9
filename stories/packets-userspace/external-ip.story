# An external IP is served for packets from outside and from pods. Those of the host leave the node, as with kube-proxy. ipMode
# Proxy addresses are not served.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/ext  externalIP 198.51.100.30  clusterIP 10.96.0.14  port http 80→8080
endpoint shop/ext 10.244.2.10  node node-b
service shop/cloud  LoadBalancer 198.51.100.24  ipMode Proxy  clusterIP 10.96.0.24  port https 443→8443
endpoint shop/cloud 10.244.1.24  node node-a
-- packets --
FROM                                   TO                 OUTCOME
203.0.113.5, 10.244.1.100              198.51.100.30:80   10.244.2.10:8080 masqueraded
192.0.2.10                             198.51.100.30:80   untouched
203.0.113.5, 10.244.1.100              198.51.100.24:443  untouched
