# ipMode Proxy: the load balancer opens its own connections, so its address is not ours to serve. VIP, or nothing, is.
-- proxy --
mode nftables
nodePortAddresses primary
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/cloud  LoadBalancer 198.51.100.24  ipMode Proxy  clusterIP 10.96.0.24  port https 443→8443  nodePort 30424
endpoint shop/cloud 10.244.1.24  node node-a
-- plan --
FRONTEND                OWNER             FROM        THEN
10.96.0.24:443/tcp      shop/cloud:https  local pods  cluster pool
                                          anyone      cluster pool, masquerade
10.96.0.24 other ports  shop/cloud:https  anyone      reject
nodePort 30424/tcp      shop/cloud:https  anyone      cluster pool, masquerade
POOL                      ENDPOINTS
shop/cloud:https cluster  10.244.1.24:8443
-- packets --
FROM                       TO                 OUTCOME
10.244.1.100, 203.0.113.5  198.51.100.24:443  untouched  # nftables N59
203.0.113.5                192.0.2.10:30424   10.244.1.24:8443 masqueraded
-- then: service shop/cloud LoadBalancer 198.51.100.24 ipMode VIP clusterIP 10.96.0.24 port https 443→8443 nodePort 30424 --
-- delta --
changed  198.51.100.24:443/tcp
-- packets --
FROM                       TO                 OUTCOME
10.244.1.100, 203.0.113.5  198.51.100.24:443  10.244.1.24:8443 masqueraded  # nftables N59
-- then: service shop/cloud LoadBalancer 198.51.100.24 clusterIP 10.96.0.24 port https 443→8443 nodePort 30424 --
-- delta --
nothing
-- packets --
FROM                       TO                 OUTCOME
10.244.1.100, 203.0.113.5  198.51.100.24:443  10.244.1.24:8443 masqueraded  # nftables N59
