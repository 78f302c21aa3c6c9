# A good object is followed by a broken version of itself: what it said before does not linger.
-- cluster --
service web  clusterIP 10.96.0.10  port http 80→8080
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  10.244.2.5:8080
-- then: endpoint web 10.244.2.5 node b port http 70000 --
-- diagnostics --
EndpointSlice default/web-v4: ports[0].port: 70000 is not a port (1 to 65535), ignored
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  rejected
-- then: service web clusterIP 10.96.0.x port http 80→8080 --
-- diagnostics --
Service default/web: spec.clusterIPs[0]: "10.96.0.x" is not an IP address, ignored
EndpointSlice default/web-v4: ports[0].port: 70000 is not a port (1 to 65535), ignored
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.10:80  untouched
