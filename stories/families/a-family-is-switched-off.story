# Serving one family only: what was planned for the other is gone, whatever the Services say.
-- cluster --
node a  addresses 192.0.2.10,2001:db8::10
service web  clusterIP 10.96.0.10,fd00:96::10  port 80→8080
endpoint web 10.244.1.5  node a  ready
endpoint web fd00:244::5  node a  ready
-- packets --
FROM           TO                  OUTCOME
fd00:244::9    [fd00:96::10]:80    [fd00:244::5]:8080
-- proxy --
families IPv4
-- plan --
FRONTEND           OWNER        FROM    THEN
10.96.0.10:80/tcp  default/web  anyone  cluster pool
POOL                 ENDPOINTS
default/web cluster  10.244.1.5:8080
-- packets --
FROM           TO                  OUTCOME
fd00:244::9    [fd00:96::10]:80    untouched
10.244.1.9     10.96.0.10:80       10.244.1.5:8080
