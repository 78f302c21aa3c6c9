# IPv6 Services behave as IPv4 ones do: cluster IP, NodePort on the primary address, nothing on loopback.
-- proxy --
mode nftables
nodePortAddresses primary
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10,2001:db8::10  alsoOn 192.0.2.77,2001:db8::77  zone zone-a
service shop/web6  clusterIP fd00:96::10  port http 80→8080
endpoint shop/web6 fd00:244:1::5  node node-a
endpoint shop/web6 fd00:244:2::7  node node-b
service shop/np6  NodePort  clusterIP fd00:96::11  port http 80→8080  nodePort 30086
endpoint shop/np6 fd00:244:1::6  node node-a
endpoint shop/np6 fd00:244:2::8  node node-b
-- plan --
FRONTEND                 OWNER           FROM        THEN
[fd00:96::10]:80/tcp     shop/web6:http  local pods  cluster pool
                                         anyone      cluster pool, masquerade
fd00:96::10 other ports  shop/web6:http  anyone      reject
[fd00:96::11]:80/tcp     shop/np6:http   local pods  cluster pool
                                         anyone      cluster pool, masquerade
fd00:96::11 other ports  shop/np6:http   anyone      reject
nodePort 30086/tcp       shop/np6:http   anyone      cluster pool, masquerade
POOL                    ENDPOINTS
shop/np6:http cluster   [fd00:244:1::6]:8080, [fd00:244:2::8]:8080
shop/web6:http cluster  [fd00:244:1::5]:8080, [fd00:244:2::7]:8080
-- packets --
FROM                            TO                    OUTCOME
fd00:244::100                   [fd00:96::10]:80      [fd00:244:1::5]:8080 | [fd00:244:2::7]:8080  # nftables N80
2001:db8:ffff::5, 2001:db8::10  [2001:db8::10]:30086  [fd00:244:1::6]:8080 masqueraded | [fd00:244:2::8]:8080 masqueraded  # nftables N81
2001:db8:ffff::5, 2001:db8::10  [2001:db8::77]:30086  untouched  # nftables N81
::1                             [::1]:30086           untouched  # nftables N38
