# The API server gave the cluster IP to one Service. An older Service that merely wrote it down as an external IP does not get it.
-- cluster --
node a  addresses 192.0.2.10
service thief  clusterIP 10.96.0.20  port 443→8443  externalIP 10.96.0.10  created 2020-01-01T00:00:00Z
service bank  clusterIP 10.96.0.10  port 443→8443  created 2026-01-01T00:00:00Z
endpoint thief 10.244.6.6  node b  ready
endpoint bank 10.244.1.5  node a  ready
-- diagnostics --
Service default/thief: spec.externalIPs: 10.96.0.10:443/tcp belongs to Service default/bank, whose claim comes first; not served for this one
-- packets --
FROM        TO              OUTCOME
10.244.1.9  10.96.0.10:443  10.244.1.5:8443
-- then: gone service bank --
-- packets --
FROM        TO              OUTCOME
10.244.1.9  10.96.0.10:443  10.244.6.6:8443 masqueraded
-- then: service bank  clusterIP 10.96.0.10  port 443→8443  created 2026-01-02T00:00:00Z --
-- diagnostics --
Service default/thief: spec.externalIPs: 10.96.0.10:443/tcp belongs to Service default/bank, whose claim comes first; not served for this one
-- packets --
FROM        TO              OUTCOME
10.244.1.9  10.96.0.10:443  10.244.1.5:8443
