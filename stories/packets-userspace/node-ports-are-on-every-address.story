# NodePorts are served on every local address, 127.0.0.1 included, unless nodePortAddresses says otherwise.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77  zone zone-a
service shop/np  NodePort  clusterIP 10.96.0.11  port http 80→8080  nodePort 30080
endpoint shop/np 10.244.1.6  node node-a
endpoint shop/np 10.244.2.8  node node-b
-- plan --
FRONTEND                     OWNER         FROM        THEN
10.96.0.11:80/tcp            shop/np:http  local pods  cluster pool, masquerade
                                           anyone      cluster pool, masquerade
nodePort 30080/tcp           shop/np:http  anyone      cluster pool, masquerade
loopback nodePort 30080/tcp  shop/np:http  anyone      cluster pool, masquerade
POOL                  ENDPOINTS
shop/np:http cluster  10.244.1.6:8080, 10.244.2.8:8080
-- packets --
FROM          TO                OUTCOME
203.0.113.5   192.0.2.10:30080  10.244.1.6:8080 masqueraded | 10.244.2.8:8080 masqueraded
203.0.113.5   192.0.2.77:30080  10.244.1.6:8080 masqueraded | 10.244.2.8:8080 masqueraded
10.244.1.100  192.0.2.10:30080  10.244.1.6:8080 masqueraded | 10.244.2.8:8080 masqueraded
192.0.2.10    192.0.2.10:30080  10.244.1.6:8080 masqueraded | 10.244.2.8:8080 masqueraded
127.0.0.1     127.0.0.1:30080   10.244.1.6:8080 masqueraded | 10.244.2.8:8080 masqueraded
-- proxy --
nodePortAddresses 192.0.2.10/32
-- packets --
FROM         TO                OUTCOME
203.0.113.5  192.0.2.10:30080  10.244.1.6:8080 masqueraded | 10.244.2.8:8080 masqueraded
203.0.113.5  192.0.2.77:30080  untouched
127.0.0.1    127.0.0.1:30080   untouched
