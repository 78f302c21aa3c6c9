# An IPv6-only Service has no IPv4 side: its IPv4 addresses and node port are nobody's.
-- cluster --
service web  NodePort  externalIP 203.0.113.8,2001:db8:8::8  clusterIP fd00:96::10  port http 80→8080  nodePort 30080
endpoint web fd00:244:2::5  node b
node a  addresses 192.0.2.1,2001:db8::1  podCIDR 10.244.1.0/24,fd00:244:1::/64
-- plan --
FRONTEND                OWNER             FROM        THEN
[2001:db8:8::8]:80/tcp  default/web:http  anyone      cluster pool, masquerade
[fd00:96::10]:80/tcp    default/web:http  local pods  cluster pool
                                          anyone      cluster pool, masquerade
nodePort 30080/tcp      default/web:http  anyone      cluster pool, masquerade
POOL                      ENDPOINTS
default/web:http cluster  [fd00:244:2::5]:8080
-- packets --
FROM           TO                                       OUTCOME
2001:db8:9::9  [2001:db8::1]:30080, [2001:db8:8::8]:80  [fd00:244:2::5]:8080 masqueraded
198.51.100.9   192.0.2.1:30080, 203.0.113.8:80          untouched
