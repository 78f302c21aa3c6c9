# Switching affinity off changes the pool and whatever leads to it, and nothing else.
-- cluster --
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  sessionAffinity ClientIP 600
service other  clusterIP 10.96.0.11  port http 80→8080  sessionAffinity ClientIP 600
endpoint web 10.244.2.5  node b
endpoint other 10.244.2.6  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- then: service web NodePort clusterIP 10.96.0.10 port http 80→8080 nodePort 30080 --
-- delta --
changed  10.96.0.10:80/tcp, nodePort 30080/tcp, default/web:http cluster
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080
10.244.1.3  10.96.0.11:80  10.244.2.6:8080 sticky 600s
