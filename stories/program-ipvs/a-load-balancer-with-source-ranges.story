# A load balancer with source ranges: who may connect is in two sets, and the node's own packets, which carry the load balancer's
# address, in a third. A node outside the ranges gets a rule of its own.
-- proxy --
mode ipvs
detectLocal ClusterCIDR 10.244.0.0/16
families IPv4
-- cluster --
node node-a  addresses 192.0.2.10
service admitted  LoadBalancer 198.51.100.11  clusterIP 10.96.0.11  port http 80→8080  sourceRanges 203.0.113.0/24,192.0.2.0/24
endpoint admitted 10.244.1.6  node node-a  ready
service excluded  LoadBalancer 198.51.100.12  clusterIP 10.96.0.12  port http 80→8080  sourceRanges 203.0.113.7/32
endpoint excluded 10.244.1.7  node node-a  ready
-- program: ipvs --
virtual server 10.96.0.11:80/TCP rr → 10.244.1.6:8080
virtual server 10.96.0.12:80/TCP rr → 10.244.1.7:8080
virtual server 198.51.100.11:80/TCP rr → 10.244.1.6:8080
virtual server 198.51.100.12:80/TCP rr → 10.244.1.7:8080
kube-ipvs0 10.96.0.11
kube-ipvs0 10.96.0.12
kube-ipvs0 198.51.100.11
kube-ipvs0 198.51.100.12
KUBE-LOOP-BACK 10.244.1.6,tcp:8080,10.244.1.6
KUBE-LOOP-BACK 10.244.1.7,tcp:8080,10.244.1.7
KUBE-LOAD-BALANCER-SOURCE-IP 198.51.100.11,tcp:80,198.51.100.11
KUBE-LOAD-BALANCER-SOURCE-CIDR 198.51.100.11,tcp:80,192.0.2.0/24
KUBE-LOAD-BALANCER-SOURCE-CIDR 198.51.100.11,tcp:80,203.0.113.0/24
KUBE-LOAD-BALANCER-SOURCE-CIDR 198.51.100.12,tcp:80,203.0.113.7
KUBE-LOAD-BALANCER-FW 198.51.100.11,tcp:80
KUBE-LOAD-BALANCER-FW 198.51.100.12,tcp:80
KUBE-LOAD-BALANCER 198.51.100.11,tcp:80
KUBE-LOAD-BALANCER 198.51.100.12,tcp:80
KUBE-CLUSTER-IP 10.96.0.11,tcp:80
KUBE-CLUSTER-IP 10.96.0.12,tcp:80
KUBE-IPVS-IPS 10.96.0.11
KUBE-IPVS-IPS 10.96.0.12
KUBE-IPVS-IPS 198.51.100.11
KUBE-IPVS-IPS 198.51.100.12
nat KUBE-SERVICES -s 127.0.0.0/8 -j RETURN
nat KUBE-SERVICES -m set --match-set KUBE-LOAD-BALANCER dst,dst -j KUBE-LOAD-BALANCER
nat KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
nat KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT
nat KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT
nat KUBE-SERVICES -m set --match-set KUBE-LOAD-BALANCER dst,dst -j ACCEPT
nat KUBE-POSTROUTING -m set --match-set KUBE-LOOP-BACK dst,dst,src -j MASQUERADE
nat KUBE-POSTROUTING -m mark ! --mark 0x00004000/0x00004000 -j RETURN
nat KUBE-POSTROUTING -j MARK --xor-mark 0x00004000
nat KUBE-POSTROUTING -j MASQUERADE --random-fully
nat KUBE-LOAD-BALANCER -j KUBE-MARK-MASQ
nat KUBE-MARK-MASQ -j MARK --or-mark 0x00004000
filter KUBE-FORWARD -m mark --mark 0x00004000/0x00004000 -j ACCEPT
filter KUBE-FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
filter KUBE-NODE-PORT -m set --match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j ACCEPT
filter KUBE-PROXY-FIREWALL -m set --match-set KUBE-LOAD-BALANCER-FW dst,dst -j KUBE-SOURCE-RANGES-FIREWALL
filter KUBE-SOURCE-RANGES-FIREWALL -m set --match-set KUBE-LOAD-BALANCER-SOURCE-CIDR dst,dst,src -j RETURN
filter KUBE-SOURCE-RANGES-FIREWALL -m set --match-set KUBE-LOAD-BALANCER-SOURCE-IP dst,dst,src -j RETURN
filter KUBE-SOURCE-RANGES-FIREWALL -j DROP
filter KUBE-IPVS-FILTER -m set --match-set KUBE-LOAD-BALANCER dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-CLUSTER-IP dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-EXTERNAL-IP dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-EXTERNAL-IP-LOCAL dst,dst -j RETURN
filter KUBE-IPVS-FILTER -m set --match-set KUBE-HEALTH-CHECK-NODE-PORT dst -j RETURN
filter KUBE-IPVS-FILTER -m conntrack --ctstate NEW -m set --match-set KUBE-IPVS-IPS dst -j REJECT
filter KUBE-IPVS-OUT-FILTER -s 198.51.100.12 -m ipvs --vaddr 198.51.100.12 --vproto tcp --vport 80 -j DROP
