# When the Service that has a contested address is deleted, or gives it up, the next oldest gets it without being touched.
-- cluster --
service first  externalIP 203.0.113.8  clusterIP 10.96.0.10  port http 80→8080  created 2026-01-01T00:00:00Z
service second  externalIP 203.0.113.8  clusterIP 10.96.0.11  port http 80→8080  created 2026-02-01T00:00:00Z
service third  externalIP 203.0.113.8  clusterIP 10.96.0.12  port http 80→8080  created 2026-03-01T00:00:00Z
endpoint first 10.244.2.5  node b
endpoint second 10.244.2.6  node b
endpoint third 10.244.2.7  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- diagnostics --
Service default/second: spec.externalIPs: 203.0.113.8:80/tcp belongs to Service default/first, whose claim comes first; not served for this one
Service default/third: spec.externalIPs: 203.0.113.8:80/tcp belongs to Service default/first, whose claim comes first; not served for this one
-- packets --
FROM          TO              OUTCOME
198.51.100.9  203.0.113.8:80  10.244.2.5:8080 masqueraded
-- then: gone service first --
-- delta --
changed  10.96.0.10:80/tcp, 203.0.113.8:80/tcp, default/first:http cluster
-- packets --
FROM          TO              OUTCOME
198.51.100.9  203.0.113.8:80  10.244.2.6:8080 masqueraded
-- then: service second clusterIP 10.96.0.11 port http 80→8080 created 2026-02-01T00:00:00Z --
-- delta --
changed  203.0.113.8:80/tcp
-- diagnostics --
nothing
-- packets --
FROM          TO              OUTCOME
198.51.100.9  203.0.113.8:80  10.244.2.7:8080 masqueraded
