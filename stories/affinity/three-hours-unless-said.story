# sessionAffinity ClientIP without a timeout lasts three hours; one no API server would accept counts as not said.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080  sessionAffinity ClientIP
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080 sticky 10800s
-- then: service web clusterIP 10.96.0.10 port http 80→8080 sessionAffinity ClientIP 60 --
-- delta --
changed  10.96.0.10:80/tcp, default/web:http cluster
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080 sticky 60s
-- then: service web clusterIP 10.96.0.10 port http 80→8080 sessionAffinity ClientIP 100000 --
-- diagnostics --
Service default/web: spec.sessionAffinityConfig.clientIP.timeoutSeconds: 100000 is not a timeout (1 to 86400 seconds), 10800 is used
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080 sticky 10800s
