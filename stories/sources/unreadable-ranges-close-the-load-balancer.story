# One unreadable range costs only itself. If none can be read, nobody gets in: that was not the wish, but open is worse.
-- cluster --
service web  LoadBalancer 203.0.113.7  clusterIP 10.96.0.10  port http 80→8080  sourceRanges 198.51.100.0/24,bogus
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- diagnostics --
Service default/web: spec.loadBalancerSourceRanges[1]: "bogus" is not a CIDR, ignored
-- packets --
FROM          TO              OUTCOME
198.51.100.9  203.0.113.7:80  10.244.2.5:8080 masqueraded
8.8.4.4       203.0.113.7:80  dropped
-- then: service web LoadBalancer 203.0.113.7 clusterIP 10.96.0.10 port http 80→8080 sourceRanges bogus,10.0.0.0/33 --
-- diagnostics --
Service default/web: spec.loadBalancerSourceRanges: no range can be read, so the load-balancer addresses are closed to everyone
Service default/web: spec.loadBalancerSourceRanges[0]: "bogus" is not a CIDR, ignored
Service default/web: spec.loadBalancerSourceRanges[1]: "10.0.0.0/33" is not a CIDR, ignored
-- packets --
FROM                               TO              OUTCOME
198.51.100.9, 8.8.4.4, 10.244.1.3  203.0.113.7:80  dropped
