# internalTrafficPolicy is about the cluster IP alone: through a NodePort or load balancer a pod reaches all endpoints.
-- proxy --
mode nftables
nodePortAddresses primary
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/both  LoadBalancer 198.51.100.40  clusterIP 10.96.0.40  port http 80→8080  nodePort 30084  internalTrafficPolicy Local
endpoint shop/both 10.244.1.40  node node-a
endpoint shop/both 10.244.2.40  node node-b
-- plan --
FRONTEND                OWNER           FROM        THEN
10.96.0.40:80/tcp       shop/both:http  local pods  local pool
                                        anyone      local pool, masquerade
198.51.100.40:80/tcp    shop/both:http  anyone      cluster pool, masquerade
10.96.0.40 other ports  shop/both:http  anyone      reject
nodePort 30084/tcp      shop/both:http  anyone      cluster pool, masquerade
POOL                    ENDPOINTS
shop/both:http cluster  10.244.1.40:8080, 10.244.2.40:8080
shop/both:http local    10.244.1.40:8080
-- packets --
FROM          TO                                  OUTCOME
10.244.1.100  10.96.0.40:80                       10.244.1.40:8080
10.244.1.100  192.0.2.10:30084, 198.51.100.40:80  10.244.1.40:8080 masqueraded | 10.244.2.40:8080 masqueraded  # nftables N28
