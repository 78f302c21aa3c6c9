# TCP and SCTP notice by themselves that an endpoint is gone: their flows are never touched.
-- cluster --
service dns  clusterIP 10.96.0.53  port dns 53/udp  port dns-tcp 53  port dns-sctp 53/sctp
endpoint dns 10.244.1.53  node a
endpoint dns 10.244.2.53  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- then: gone endpoint dns 10.244.2.53 --
-- flows --
FLOW                ANSWERED BY     THEN
udp 10.96.0.53:53   10.244.2.53:53  delete
tcp 10.96.0.53:53   10.244.2.53:53  keep
sctp 10.96.0.53:53  10.244.2.53:53  keep
