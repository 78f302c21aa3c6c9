# externalTrafficPolicy Local: outsiders reach this node's endpoint. Pods and the host reach all, the host also through 127.0.0.1.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/npl  NodePort  clusterIP 10.96.0.12  port http 80→8080  nodePort 30081  externalTrafficPolicy Local
endpoint shop/npl 10.244.1.7  node node-a
endpoint shop/npl 10.244.2.9  node node-b
-- plan --
FRONTEND                     OWNER          FROM        THEN
10.96.0.12:80/tcp            shop/npl:http  local pods  cluster pool, masquerade
                                            anyone      cluster pool, masquerade
nodePort 30081/tcp           shop/npl:http  local pods  cluster pool, masquerade
                                            this host   cluster pool, masquerade
                                            anyone      local pool, masquerade
loopback nodePort 30081/tcp  shop/npl:http  (as nodePort 30081/tcp)
POOL                   ENDPOINTS
shop/npl:http cluster  10.244.1.7:8080, 10.244.2.9:8080
shop/npl:http local    10.244.1.7:8080
-- packets --
FROM          TO                OUTCOME
203.0.113.5   192.0.2.10:30081  10.244.1.7:8080 masqueraded
10.244.1.100  192.0.2.10:30081  10.244.1.7:8080 masqueraded | 10.244.2.9:8080 masqueraded
192.0.2.10    192.0.2.10:30081  10.244.1.7:8080 masqueraded | 10.244.2.9:8080 masqueraded
127.0.0.1     127.0.0.1:30081   10.244.1.7:8080 masqueraded | 10.244.2.9:8080 masqueraded
