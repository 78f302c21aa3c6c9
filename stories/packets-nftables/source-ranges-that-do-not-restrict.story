# A range of everything lifts the restriction, and ranges of one family leave the other open.
-- proxy --
mode nftables
nodePortAddresses primary
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10,2001:db8::10  alsoOn 192.0.2.77  zone zone-a
service shop/lb  LoadBalancer 198.51.100.20  clusterIP 10.96.0.13  port https 443→8443  sourceRanges 192.0.2.0/24,0.0.0.0/0
endpoint shop/lb 10.244.1.8  node node-a
service shop/dual  LoadBalancer 198.51.100.23 2001:db8:1::23  clusterIP 10.96.0.23,fd00:96::23  port https 443→8443  sourceRanges 203.0.113.0/24
endpoint shop/dual 10.244.1.23  node node-a
endpoint shop/dual fd00:244:1::23  node node-a
-- diagnostics --
Service shop/dual: spec.loadBalancerSourceRanges: no range is IPv6, so IPv6 load-balancer addresses are open to everyone
-- packets --
FROM              TO                    OUTCOME
8.8.4.4           198.51.100.20:443     10.244.1.8:8443 masqueraded  # nftables N57
2001:db8:ffff::5  [2001:db8:1::23]:443  [fd00:244:1::23]:8443 masqueraded  # nftables N58
8.8.4.4           198.51.100.23:443     dropped
