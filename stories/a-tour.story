# A tour. A cluster is described below in a few words; the plan is what this node makes of it, and each packet says where
# it ends up. Change a line, run `make story NAME=a-tour`, and see what follows.
-- cluster --
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24

service web   LoadBalancer 203.0.113.7  clusterIP 10.96.0.80  port http 80→8080  nodePort 30080  externalTrafficPolicy Local  healthCheckNodePort 32080
service dns   clusterIP 10.96.0.53  port dns 53/udp
service cart  clusterIP 10.96.0.90  port http 80→8080  sessionAffinity ClientIP 600

endpoint web  10.244.1.8  node a
endpoint web  10.244.2.8  node b
endpoint dns  10.244.2.53  node b
endpoint cart 10.244.1.9  node a
endpoint cart 10.244.2.9  node b
-- plan --
FRONTEND            OWNER              FROM        THEN
10.96.0.53:53/udp   default/dns:dns    local pods  cluster pool
                                       anyone      cluster pool, masquerade
10.96.0.80:80/tcp   default/web:http   local pods  cluster pool
                                       anyone      cluster pool, masquerade
203.0.113.7:80/tcp  default/web:http   local pods  cluster pool
                                       this host   cluster pool, masquerade
                                       anyone      local pool
nodePort 30080/tcp  default/web:http   (as 203.0.113.7:80/tcp)
10.96.0.90:80/tcp   default/cart:http  local pods  cluster pool
                                       anyone      cluster pool, masquerade
POOL                       ENDPOINTS
default/cart:http cluster  10.244.1.9:8080, 10.244.2.9:8080  sticky 600s
default/dns:dns cluster    10.244.2.53:53
default/web:http cluster   10.244.1.8:8080, 10.244.2.8:8080
default/web:http local     10.244.1.8:8080
HEALTH CHECK  PORT   LOCAL ENDPOINTS
default/web   32080  1
-- packets --
FROM          TO                               OUTCOME
# A pod asks for web by its cluster IP: any endpoint will do, and it sees the pod's own address.
10.244.1.3    10.96.0.80:80                    10.244.1.8:8080 | 10.244.2.8:8080
# A customer comes through the load balancer. Policy Local: an endpoint on this node, which sees the customer's address.
198.51.100.9  203.0.113.7:80, 192.0.2.1:30080  10.244.1.8:8080
# The cart remembers its clients. From the node itself, answers must come back through it: masqueraded.
10.244.1.3    10.96.0.90:80                    10.244.1.9:8080 | 10.244.2.9:8080 sticky 600s
192.0.2.1     10.96.0.53:53/udp                10.244.2.53:53 masqueraded
-- then: endpoint web 10.244.1.8 node a terminated; endpoint dns 10.244.2.54 node b; gone endpoint dns 10.244.2.53 --
-- delta --
changed  10.96.0.53:53/udp, 10.96.0.80:80/tcp, 203.0.113.7:80/tcp, nodePort 30080/tcp, default/dns:dns cluster, default/web:http cluster, default/web:http local, health check of default/web, flows of default/dns:dns
-- packets --
FROM          TO                               OUTCOME
# No endpoint of web is left here: the load balancer is to try another node. Pods do not mind.
198.51.100.9  203.0.113.7:80, 192.0.2.1:30080  dropped
10.244.1.3    203.0.113.7:80, 10.96.0.80:80    10.244.2.8:8080
-- flows --
FLOW               ANSWERED BY     THEN
# UDP does not notice that an endpoint is gone, so the kernel is made to forget the old flow.
udp 10.96.0.53:53  10.244.2.53:53  delete
