# IPv6 Services behave as IPv4 ones do, on ::1 too.
-- proxy --
mode userspace
loopbackNodePorts relayed
detectLocal ClusterCIDR 10.244.0.0/16,fd00:244::/32
-- cluster --
node node-a  addresses 192.0.2.10,2001:db8::10  alsoOn 192.0.2.77,2001:db8:77::77  zone zone-a
service shop/np6  NodePort  clusterIP fd00:96::11  port http 80→8080  nodePort 30080
endpoint shop/np6 fd00:244:1::6  node node-a
endpoint shop/np6 fd00:244:2::8  node node-b
-- plan --
FRONTEND                     OWNER          FROM        THEN
[fd00:96::11]:80/tcp         shop/np6:http  local pods  cluster pool, masquerade
                                            anyone      cluster pool, masquerade
nodePort 30080/tcp           shop/np6:http  anyone      cluster pool, masquerade
loopback nodePort 30080/tcp  shop/np6:http  anyone      cluster pool, masquerade
POOL                   ENDPOINTS
shop/np6:http cluster  [fd00:244:1::6]:8080, [fd00:244:2::8]:8080
-- packets --
FROM              TO                                             OUTCOME
fd00:244::100     [fd00:96::11]:80                               [fd00:244:1::6]:8080 masqueraded | [fd00:244:2::8]:8080 masqueraded
2001:db8:ffff::5  [2001:db8::10]:30080, [2001:db8:77::77]:30080  [fd00:244:1::6]:8080 masqueraded | [fd00:244:2::8]:8080 masqueraded
::1               [::1]:30080                                    [fd00:244:1::6]:8080 masqueraded | [fd00:244:2::8]:8080 masqueraded
-- proxy --
nodePortAddresses 2001:db8::/64
-- packets --
FROM              TO                       OUTCOME
2001:db8:ffff::5  [2001:db8::10]:30080     [fd00:244:1::6]:8080 masqueraded | [fd00:244:2::8]:8080 masqueraded
2001:db8:ffff::5  [2001:db8:77::77]:30080  untouched
