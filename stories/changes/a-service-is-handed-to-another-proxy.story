# A Service labelled for another proxy is none of ours from that moment, and ours again when the label goes.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- then: service web clusterIP 10.96.0.10 port http 80→8080 serviceProxyName mesh --
-- delta --
changed  10.96.0.10:80/tcp, default/web:http cluster
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  untouched
-- then: service web clusterIP 10.96.0.10 port http 80→8080 --
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080
