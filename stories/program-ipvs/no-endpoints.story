# A Service without endpoints keeps its virtual server, whose connections IPVS refuses. Pods that cannot be recognized are not
# masqueraded: only the node's own packets are.
-- proxy --
mode ipvs
detectLocal none
-- cluster --
node node-a  addresses 192.0.2.10,2001:db8::10
service empty  clusterIP 10.96.0.40,fd00:96::40  port http 80→8080
-- program: ipvs --
virtual server 10.96.0.40:80/TCP rr → nothing
kube-ipvs0 10.96.0.40
KUBE-CLUSTER-IP 10.96.0.40,tcp:80
KUBE-IPVS-IPS 10.96.0.40
nat KUBE-SERVICES -s 127.0.0.0/8 -j RETURN
nat KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP src,dst -j KUBE-MARK-MASQ
nat KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT
nat KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT
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
virtual server [fd00:96::40]:80/TCP rr → nothing
kube-ipvs0 fd00:96::40
KUBE-6-CLUSTER-IP fd00:96::40,tcp:80
KUBE-6-IPVS-IPS fd00:96::40
nat KUBE-SERVICES -s ::1/128 -j RETURN
nat KUBE-SERVICES -m set --match-set KUBE-6-CLUSTER-IP src,dst -j KUBE-MARK-MASQ
nat KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT
nat KUBE-SERVICES -m set --match-set KUBE-6-CLUSTER-IP dst,dst -j ACCEPT
nat KUBE-POSTROUTING -m mark ! --mark 0x00004000/0x00004000 -j RETURN
nat KUBE-POSTROUTING -j MARK --xor-mark 0x00004000
nat KUBE-POSTROUTING -j MASQUERADE --random-fully
nat KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ
nat KUBE-MARK-MASQ -j MARK --or-mark 0x00004000
filter KUBE-FORWARD -m mark --mark 0x00004000/0x00004000 -j ACCEPT
filter KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
filter KUBE-NODE-PORT -m set --match-set KUBE-6-HEALTH-CHECK-NODE-PORT dst -j ACCEPT
filter KUBE-SOURCE-RANGES-FIREWALL -j DROP
filter KUBE-IPVS-FILTER -m set --match-set KUBE-6-LOAD-BALANCER dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-6-CLUSTER-IP dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-6-EXTERNAL-IP dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-6-EXTERNAL-IP-LOCAL dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-6-HEALTH-CHECK-NODE-PORT dst -j RETURN
filter KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set KUBE-6-IPVS-IPS dst -j REJECT
