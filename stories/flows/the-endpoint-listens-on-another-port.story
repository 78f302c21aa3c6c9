# The same address on another port is another endpoint: flows to the old port are stale, in IPv6 as well.
-- cluster --
service dns  clusterIP 10.96.0.53,fd00:96::53  port dns 53/udp
endpoint dns 10.244.2.53  node b
endpoint dns fd00:244:2::53  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- then: service dns clusterIP 10.96.0.53,fd00:96::53 port dns 53→5353/udp --
-- flows --
FLOW                  ANSWERED BY            THEN
udp 10.96.0.53:53     10.244.2.53:53         delete
udp 10.96.0.53:53     10.244.2.53:5353       keep
udp [fd00:96::53]:53  [fd00:244:2::53]:53    delete
udp [fd00:96::53]:53  [fd00:244:2::53]:5353  keep
