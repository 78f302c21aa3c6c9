# A NodePort is a virtual server on each address of the node. Policy Local keeps the client's address: the port is in one more set,
# whose rule comes first. SCTP ports are in sets of addresses and ports, since the kernel's set of ports knows TCP and UDP alone.
-- proxy --
mode ipvs
detectLocal ClusterCIDR 10.244.0.0/16
families IPv4
-- cluster --
node node-a  addresses 192.0.2.10  alsoOn 192.0.2.77
service shared  NodePort  clusterIP 10.96.0.20  port http 80→8080  nodePort 30080
endpoint shared 10.244.2.8  node node-b  ready
service here  NodePort  clusterIP 10.96.0.21  port dns 53→5353/udp  nodePort 30053  port sig 38412→38412/sctp  nodePort 30412  externalTrafficPolicy Local
endpoint here 10.244.1.9  node node-a  ready
endpoint here 10.244.2.9  node node-b  ready
-- program: ipvs --
virtual server 10.96.0.20:80/TCP rr → 10.244.2.8:8080
virtual server 10.96.0.21:53/UDP rr → 10.244.1.9:5353, 10.244.2.9:5353
virtual server 10.96.0.21:38412/SCTP rr → 10.244.1.9:38412, 10.244.2.9:38412
virtual server 192.0.2.10:30080/TCP rr → 10.244.2.8:8080
virtual server 192.0.2.10:30053/UDP rr → 10.244.1.9:5353
virtual server 192.0.2.10:30412/SCTP rr → 10.244.1.9:38412
virtual server 192.0.2.77:30080/TCP rr → 10.244.2.8:8080
virtual server 192.0.2.77:30053/UDP rr → 10.244.1.9:5353
virtual server 192.0.2.77:30412/SCTP rr → 10.244.1.9:38412
kube-ipvs0 10.96.0.20
kube-ipvs0 10.96.0.21
KUBE-LOOP-BACK 10.244.1.9,udp:5353,10.244.1.9
KUBE-LOOP-BACK 10.244.1.9,sctp:38412,10.244.1.9
KUBE-CLUSTER-IP 10.96.0.20,tcp:80
KUBE-CLUSTER-IP 10.96.0.21,udp:53
KUBE-CLUSTER-IP 10.96.0.21,sctp:38412
KUBE-NODE-PORT-TCP 30080
KUBE-NODE-PORT-LOCAL-UDP 30053
KUBE-NODE-PORT-UDP 30053
KUBE-NODE-PORT-LOCAL-SCTP-HASH 192.0.2.10,sctp:30412
KUBE-NODE-PORT-LOCAL-SCTP-HASH 192.0.2.77,sctp:30412
KUBE-NODE-PORT-SCTP-HASH 192.0.2.10,sctp:30412
KUBE-NODE-PORT-SCTP-HASH 192.0.2.77,sctp:30412
KUBE-IPVS-IPS 10.96.0.20
KUBE-IPVS-IPS 10.96.0.21
nat KUBE-SERVICES -s 127.0.0.0/8 -j RETURN
nat KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ
nat KUBE-SERVICES -m addrtype --dst-type LOCAL -j KUBE-NODE-PORT
nat KUBE-SERVICES -m set --match-set KUBE-CLUSTER-IP dst,dst -j ACCEPT
nat KUBE-POSTROUTING -m set --match-set KUBE-LOOP-BACK dst,dst,src -j MASQUERADE
nat KUBE-POSTROUTING -m mark ! --mark 0x00004000/0x00004000 -j RETURN
nat KUBE-POSTROUTING -j MARK --xor-mark 0x00004000
nat KUBE-POSTROUTING -j MASQUERADE --random-fully
nat KUBE-NODE-PORT -p tcp -m set --match-set KUBE-NODE-PORT-TCP dst -j KUBE-MARK-MASQ
nat KUBE-NODE-PORT -p udp -m set --match-set KUBE-NODE-PORT-LOCAL-UDP dst -j RETURN
nat KUBE-NODE-PORT -p udp -m set --match-set KUBE-NODE-PORT-UDP dst -j KUBE-MARK-MASQ
nat KUBE-NODE-PORT -p sctp -m set --match-set KUBE-NODE-PORT-LOCAL-SCTP-HASH dst,dst -j RETURN
nat KUBE-NODE-PORT -p sctp -m set --match-set KUBE-NODE-PORT-SCTP-HASH dst,dst -j KUBE-MARK-MASQ
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
