# The operator allows external IPs of one block alone: others are not served, whatever a Service says (CVE-2020-8554).
-- proxy --
externalIPs within 203.0.113.0/29
-- cluster --
service web    externalIP 203.0.113.5,198.51.100.1  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- diagnostics --
Service default/web: spec.externalIPs: 198.51.100.1 is in none of the blocks that --allowed-external-ip-cidrs lists; not served
-- packets --
FROM          TO               OUTCOME
198.51.100.9  203.0.113.5:80   10.244.2.5:8080 masqueraded
10.244.1.3    198.51.100.1:80  untouched
10.244.1.3    10.96.0.10:80    10.244.2.5:8080
