# Of two ports with the same name, number or node port the first counts.
-- cluster --
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  port http 81→8081  port again 80→8082  port admin 82→8083  nodePort 30080
endpoint web 10.244.2.5  node b  port http 8080  port admin 8083
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- diagnostics --
Service default/web: spec.ports[1].name: duplicates port name http, the first one counts
Service default/web: spec.ports[2].port: duplicates port 80, the first one counts
Service default/web: spec.ports[3].nodePort: duplicates node port 30080, the first one counts
-- packets --
FROM          TO               OUTCOME
10.244.1.3    10.96.0.10:80    10.244.2.5:8080
198.51.100.9  192.0.2.1:30080  10.244.2.5:8080 masqueraded
10.244.1.3    10.96.0.10:82    10.244.2.5:8083
10.244.1.3    10.96.0.10:81    untouched
