# Created in the same second: the name decides, namespace first, so that every node agrees.
-- cluster --
service beta/web  externalIP 203.0.113.8  clusterIP 10.96.0.11  port http 80→8080  created 2026-01-01T00:00:00Z
service alpha/web  externalIP 203.0.113.8  clusterIP 10.96.0.10  port http 80→8080  created 2026-01-01T00:00:00Z
endpoint beta/web 10.244.2.6  node b
endpoint alpha/web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- diagnostics --
Service beta/web: spec.externalIPs: 203.0.113.8:80/tcp belongs to Service alpha/web, whose claim comes first; not served for this one
-- packets --
FROM          TO              OUTCOME
198.51.100.9  203.0.113.8:80  10.244.2.5:8080 masqueraded
