# A cluster IP is a virtual server, an address of kube-ipvs0 and an entry of two sets. The rules are the same for one Service and
# for thousands: they ask the sets.
-- proxy --
mode ipvs
detectLocal ClusterCIDR 10.244.0.0/16
families IPv4
-- cluster --
node node-a  addresses 192.0.2.10
service web  clusterIP 10.96.0.10  port http 80→8080  sessionAffinity ClientIP 600
endpoint web 10.244.1.5  node node-a  ready
endpoint web 10.244.2.5  node node-b  ready
-- program: ipvs --
virtual server 10.96.0.10:80/TCP rr persistent 600s → 10.244.1.5:8080, 10.244.2.5:8080
kube-ipvs0 10.96.0.10
KUBE-LOOP-BACK 10.244.1.5,tcp:8080,10.244.1.5
KUBE-CLUSTER-IP 10.96.0.10,tcp:80
KUBE-IPVS-IPS 10.96.0.10
nat KUBE-SERVICES -s 127.0.0.0/8 -j RETURN
nat KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
nat KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT
nat KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT
nat KUBE-POSTROUTING -m set --match-set KUBE-LOOP-BACK dst,dst,src -j MASQUERADE
nat KUBE-POSTROUTING -m mark ! --mark 0x00004000/0x00004000 -j RETURN
nat KUBE-POSTROUTING -j MARK --xor-mark 0x00004000
nat KUBE-POSTROUTING -j MASQUERADE --random-fully
nat KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ
nat KUBE-MARK-MASQ -j MARK --or-mark 0x00004000
filter KUBE-FORWARD -m mark --mark 0x00004000/0x00004000 -j ACCEPT
filter KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
filter KUBE-NODE-PORT -m set --match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j ACCEPT
filter KUBE-SOURCE-RANGES-FIREWALL -j DROP
filter KUBE-IPVS-FILTER -m set --match-set KUBE-LOAD-BALANCER dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-CLUSTER-IP dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-EXTERNAL-IP dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-EXTERNAL-IP-LOCAL dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j RETURN
filter KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set KUBE-IPVS-IPS dst -j REJECT
-- then: gone endpoint web 10.244.2.5 --
-- program: ipvs --
virtual server 10.96.0.10:80/TCP rr persistent 600s → 10.244.1.5:8080
kube-ipvs0 10.96.0.10
KUBE-LOOP-BACK 10.244.1.5,tcp:8080,10.244.1.5
KUBE-CLUSTER-IP 10.96.0.10,tcp:80
KUBE-IPVS-IPS 10.96.0.10
nat KUBE-SERVICES -s 127.0.0.0/8 -j RETURN
nat KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
nat KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT
nat KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT
nat KUBE-POSTROUTING -m set --match-set KUBE-LOOP-BACK dst,dst,src -j MASQUERADE
nat KUBE-POSTROUTING -m mark ! --mark 0x00004000/0x00004000 -j RETURN
nat KUBE-POSTROUTING -j MARK --xor-mark 0x00004000
nat KUBE-POSTROUTING -j MASQUERADE --random-fully
nat KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ
nat KUBE-MARK-MASQ -j MARK --or-mark 0x00004000
filter KUBE-FORWARD -m mark --mark 0x00004000/0x00004000 -j ACCEPT
filter KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
filter KUBE-NODE-PORT -m set --match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j ACCEPT
filter KUBE-SOURCE-RANGES-FIREWALL -j DROP
filter KUBE-IPVS-FILTER -m set --match-set KUBE-LOAD-BALANCER dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-CLUSTER-IP dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-EXTERNAL-IP dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-EXTERNAL-IP-LOCAL dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j RETURN
filter KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set KUBE-IPVS-IPS dst -j REJECT
