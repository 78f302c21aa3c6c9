# Age decides, not the order in which we hear of Services: after a restart the result is the same.
-- cluster --
service young  externalIP 203.0.113.8  clusterIP 10.96.0.11  port http 80→8080  created 2026-02-01T00:00:00Z
endpoint young 10.244.2.6  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM          TO              OUTCOME
198.51.100.9  203.0.113.8:80  10.244.2.6:8080 masqueraded
-- then --
service old  externalIP 203.0.113.8  clusterIP 10.96.0.10  port http 80→8080  created 2026-01-01T00:00:00Z
endpoint old 10.244.2.5  node b
-- delta --
changed  10.96.0.10:80/tcp, 203.0.113.8:80/tcp, default/old:http cluster
-- diagnostics --
Service default/young: spec.externalIPs: 203.0.113.8:80/tcp belongs to Service default/old, whose claim comes first; not served for this one
-- packets --
FROM          TO              OUTCOME
198.51.100.9  203.0.113.8:80  10.244.2.5:8080 masqueraded
