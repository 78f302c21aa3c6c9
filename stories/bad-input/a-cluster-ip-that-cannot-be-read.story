# Without a readable cluster IP a Service cannot be served at all; its neighbour can.
-- cluster --
service good  clusterIP 10.96.0.10  port http 80→8080
service bad  clusterIP 10.96.0.999  port http 80→8080  externalIP 203.0.113.8
endpoint good 10.244.2.5  node b
endpoint bad 10.244.2.6  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- diagnostics --
Service default/bad: spec.clusterIPs[0]: "10.96.0.999" is not an IP address, ignored
-- packets --
FROM          TO              OUTCOME
10.244.1.3    10.96.0.10:80   10.244.2.5:8080
198.51.100.9  203.0.113.8:80  untouched
