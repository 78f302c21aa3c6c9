# loadBalancerSourceRanges bind everybody who uses the load balancer's address, pods and the host included, and bind nobody who uses
# the NodePort. A client outside of them is accepted and closed.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/lb  LoadBalancer 198.51.100.20  clusterIP 10.96.0.13  port https 443→8443  nodePort 30443  sourceRanges 192.0.2.0/24,203.0.113.0/24
endpoint shop/lb 10.244.1.8  node node-a
-- packets --
FROM           TO                 OUTCOME
203.0.113.5    198.51.100.20:443  10.244.1.8:8443 masqueraded
8.8.4.4        198.51.100.20:443  rejected
10.244.1.100   198.51.100.20:443  rejected
192.0.2.10     198.51.100.20:443  10.244.1.8:8443 masqueraded
198.51.100.20  198.51.100.20:443  10.244.1.8:8443 masqueraded
8.8.4.4        192.0.2.10:30443   10.244.1.8:8443 masqueraded
203.0.113.5    198.51.100.20:444  untouched
