# With loopback listed, TCP and UDP NodePorts are forwarded from 127.0.0.1 and ::1 themselves; SCTP is still refused.
-- proxy --
mode nftables
nodePortAddresses primary,localhost
loopbackNodePorts forwardedOrRejected
-- cluster --
service web  NodePort  clusterIP 10.96.0.10,fd00:96::10  port http 80→8080  nodePort 30080
service dns  NodePort  clusterIP 10.96.0.53  port dns 53/udp  nodePort 30053
service calls  NodePort  clusterIP 10.96.0.9  port sip 9/sctp  nodePort 30009
endpoint web 10.244.2.5  node b
endpoint web fd00:244:2::5  node b
endpoint dns 10.244.2.53  node b
node a  addresses 192.0.2.1,2001:db8::1  podCIDR 10.244.1.0/24
-- plan --
FRONTEND                      OWNER              FROM        THEN
10.96.0.9:9/sctp              default/calls:sip  anyone      reject
10.96.0.9 other ports         default/calls:sip  anyone      reject
nodePort 30009/sctp           default/calls:sip  anyone      reject
loopback nodePort 30009/sctp  default/calls:sip  anyone      reject
10.96.0.10:80/tcp             default/web:http   local pods  cluster pool
                                                 anyone      cluster pool, masquerade
10.96.0.10 other ports        default/web:http   anyone      reject
nodePort 30080/tcp            default/web:http   anyone      cluster pool, masquerade
loopback nodePort 30080/tcp   default/web:http   anyone      cluster pool, masquerade
10.96.0.53:53/udp             default/dns:dns    local pods  cluster pool
                                                 anyone      cluster pool, masquerade
10.96.0.53 other ports        default/dns:dns    anyone      reject
nodePort 30053/udp            default/dns:dns    anyone      cluster pool, masquerade
loopback nodePort 30053/udp   default/dns:dns    anyone      cluster pool, masquerade
POOL                      ENDPOINTS
default/dns:dns cluster   10.244.2.53:53
default/web:http cluster  10.244.2.5:8080
FRONTEND                     OWNER             FROM    THEN
[fd00:96::10]:80/tcp         default/web:http  anyone  cluster pool
fd00:96::10 other ports      default/web:http  anyone  reject
nodePort 30080/tcp           default/web:http  anyone  cluster pool, masquerade
loopback nodePort 30080/tcp  default/web:http  anyone  cluster pool, masquerade
POOL                      ENDPOINTS
default/web:http cluster  [fd00:244:2::5]:8080
-- packets --
FROM          TO                                         OUTCOME
127.0.0.1     127.0.0.1:30080                            10.244.2.5:8080 masqueraded
::1           [::1]:30080                                [fd00:244:2::5]:8080 masqueraded
127.0.0.1     127.0.0.2:30080                            untouched
127.0.0.1     127.0.0.1:30053/udp                        10.244.2.53:53 masqueraded
127.0.0.1     127.0.0.1:30009/sctp                       rejected
198.51.100.9  192.0.2.1:30080                            10.244.2.5:8080 masqueraded
198.51.100.9  192.0.2.1:30053/udp                        10.244.2.53:53 masqueraded
-- then: gone endpoint web 10.244.2.5 --
-- packets --
# Nobody listens without endpoints, so the host refuses by itself.
FROM          TO               OUTCOME
127.0.0.1     127.0.0.1:30080  untouched
198.51.100.9  192.0.2.1:30080  rejected
