# Ports are 1 to 65535: another number costs that port. A node port out of range costs the node port alone.
-- cluster --
service web  NodePort  clusterIP 10.96.0.10  port none 0  port large 70000  port negative -1  port http 80→8080  nodePort 70000  port admin 81→8081  nodePort 30081
endpoint web 10.244.2.5  node b  port http 8080  port admin 8081  port none 0  port large 99999
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- diagnostics --
Service default/web: spec.ports[0].port: 0 is not a port (1 to 65535), ignored
Service default/web: spec.ports[1].port: 70000 is not a port (1 to 65535), ignored
Service default/web: spec.ports[2].port: -1 is not a port (1 to 65535), ignored
Service default/web: spec.ports[3].nodePort: 70000 is not a port (1 to 65535), ignored
EndpointSlice default/web-v4: ports[2].port: 0 is not a port (1 to 65535), ignored
EndpointSlice default/web-v4: ports[3].port: 99999 is not a port (1 to 65535), ignored
-- plan --
FRONTEND            OWNER              FROM        THEN
10.96.0.10:80/tcp   default/web:http   local pods  cluster pool
                                       anyone      cluster pool, masquerade
10.96.0.10:81/tcp   default/web:admin  local pods  cluster pool
                                       anyone      cluster pool, masquerade
nodePort 30081/tcp  default/web:admin  anyone      cluster pool, masquerade
POOL                       ENDPOINTS
default/web:admin cluster  10.244.2.5:8081
default/web:http cluster   10.244.2.5:8080
-- packets --
FROM          TO               OUTCOME
10.244.1.3    10.96.0.10:80    10.244.2.5:8080
198.51.100.9  192.0.2.1:30081  10.244.2.5:8081 masqueraded
