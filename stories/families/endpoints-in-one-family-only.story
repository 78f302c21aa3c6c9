# A dual-stack Service whose pods have only IPv4 addresses refuses on its IPv6 address instead of leaving clients waiting.
-- cluster --
service web  NodePort  clusterIP fd00:96::10,10.96.0.10  port http 80→8080  nodePort 30080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1,2001:db8::1  podCIDR 10.244.1.0/24,fd00:244:1::/64
-- packets --
FROM           TO                   OUTCOME
198.51.100.9   192.0.2.1:30080      10.244.2.5:8080 masqueraded
2001:db8:9::9  [2001:db8::1]:30080  rejected
fd00:244:1::3  [fd00:96::10]:80     rejected
