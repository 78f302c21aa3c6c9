# A dual-stack Service is two Services to the kernel: each family has its own address, endpoints and rules.
-- cluster --
service web  LoadBalancer 203.0.113.7 2001:db8:7::7  clusterIP 10.96.0.10,fd00:96::10  port http 80→8080
endpoint web 10.244.2.5  node b
endpoint web fd00:244:2::5  node b
node a  addresses 192.0.2.1,2001:db8::1  podCIDR 10.244.1.0/24,fd00:244:1::/64
-- plan --
FRONTEND            OWNER             FROM        THEN
10.96.0.10:80/tcp   default/web:http  local pods  cluster pool
                                      anyone      cluster pool, masquerade
203.0.113.7:80/tcp  default/web:http  anyone      cluster pool, masquerade
POOL                      ENDPOINTS
default/web:http cluster  10.244.2.5:8080
FRONTEND                OWNER             FROM        THEN
[2001:db8:7::7]:80/tcp  default/web:http  anyone      cluster pool, masquerade
[fd00:96::10]:80/tcp    default/web:http  local pods  cluster pool
                                          anyone      cluster pool, masquerade
POOL                      ENDPOINTS
default/web:http cluster  [fd00:244:2::5]:8080
-- packets --
FROM           TO                  OUTCOME
10.244.1.3     10.96.0.10:80       10.244.2.5:8080
fd00:244:1::3  [fd00:96::10]:80    [fd00:244:2::5]:8080
198.51.100.9   203.0.113.7:80      10.244.2.5:8080 masqueraded
2001:db8:9::9  [2001:db8:7::7]:80  [fd00:244:2::5]:8080 masqueraded
