# A newer Service that names somebody's cluster IP as its external IP does not get that Service's traffic.
-- cluster --
service bank  clusterIP 10.96.0.10  port https 443→8443  created 2026-01-01T00:00:00Z
service thief  externalIP 10.96.0.10  clusterIP 10.96.0.66  port https 443→8443  created 2026-02-01T00:00:00Z
endpoint bank 10.244.2.5  node b
endpoint thief 10.244.6.6  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- diagnostics --
Service default/thief: spec.externalIPs: 10.96.0.10:443/tcp belongs to Service default/bank, whose claim comes first; not served for this one
-- packets --
FROM        TO              OUTCOME
10.244.1.3  10.96.0.10:443  10.244.2.5:8443
