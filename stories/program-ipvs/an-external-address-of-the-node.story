# An external address that the node has itself gets its virtual servers and entries, but is not bound to kube-ipvs0: its other ports
# stay the node's.
-- proxy --
mode ipvs
detectLocal ClusterCIDR 10.244.0.0/16
families IPv4
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77
service edge  clusterIP 10.96.0.30  port http 8099→8080  externalIP 192.0.2.77,198.51.100.77
endpoint edge 10.244.2.3  node node-b  ready
-- program: ipvs --
virtual server 10.96.0.30:8099/TCP rr → 10.244.2.3:8080
virtual server 192.0.2.77:8099/TCP rr → 10.244.2.3:8080
virtual server 198.51.100.77:8099/TCP rr → 10.244.2.3:8080
kube-ipvs0 10.96.0.30
kube-ipvs0 198.51.100.77
KUBE-CLUSTER-IP 10.96.0.30,tcp:8099
KUBE-EXTERNAL-IP 192.0.2.77,tcp:8099
KUBE-EXTERNAL-IP 198.51.100.77,tcp:8099
KUBE-IPVS-IPS 10.96.0.30
KUBE-IPVS-IPS 198.51.100.77
nat KUBE-SERVICES -s 127.0.0.0/8 -j RETURN
nat KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
nat KUBE-SERVICES -m set --match-set KUBE-EXTERNAL-IP dst,dst -j KUBE-MARK-MASQ
nat KUBE-SERVICES -m set --match-set KUBE-EXTERNAL-IP dst,dst -m physdev ! --physdev-is-in -m addrtype ! --src-type LOCAL -j ACCEPT
nat KUBE-SERVICES -m set --match-set KUBE-EXTERNAL-IP dst,dst -m addrtype --dst-type LOCAL -j ACCEPT
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
