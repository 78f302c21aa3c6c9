# One NodePort number for two Services of one protocol: the older is served. Another protocol is another port.
-- cluster --
service old  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  created 2026-01-01T00:00:00Z
service young  NodePort  clusterIP 10.96.0.11  port http 80→8080  nodePort 30080  created 2026-02-01T00:00:00Z
service datagrams  NodePort  clusterIP 10.96.0.12  port data 80→8080/udp  nodePort 30080  created 2026-03-01T00:00:00Z
endpoint old 10.244.2.5  node b
endpoint young 10.244.2.6  node b
endpoint datagrams 10.244.2.7  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- diagnostics --
Service default/young: spec.ports[].nodePort: nodePort 30080/tcp belongs to Service default/old, whose claim comes first; not served for this one
-- packets --
FROM          TO                   OUTCOME
198.51.100.9  192.0.2.1:30080      10.244.2.5:8080 masqueraded
198.51.100.9  192.0.2.1:30080/udp  10.244.2.7:8080 masqueraded
-- then: gone service old --
-- delta --
changed  10.96.0.10:80/tcp, nodePort 30080/tcp, default/old:http cluster
-- packets --
FROM          TO               OUTCOME
198.51.100.9  192.0.2.1:30080  10.244.2.6:8080 masqueraded
