//! A cluster with every kind of Service.

/// In the words of stories.
pub const EVERY_KIND: &str = "
node node-a  addresses 192.0.2.10,2001:db8::10  alsoOn 192.0.2.77,2001:db8::77  podCIDR 10.244.1.0/24,fd44:0:0:1::/64  zone zone-a

service default/plain  ClusterIP  clusterIP 10.96.80.1  port http 80→8080/tcp  port dns 53→9090/udp  port sig 38412→38412/sctp
endpoint default/plain 10.244.1.1  node node-a  ready
endpoint default/plain 10.244.2.1  node node-b  ready
endpoint default/plain 10.244.2.2  node node-b  notReady
endpoint default/plain 10.244.1.2  node node-a  notReady

service default/both  ClusterIP  clusterIP 10.96.80.2,fd00:96::8:2  port http 80→8080/tcp  sessionAffinity ClientIP 3600
endpoint default/both 10.244.1.3  node node-a  ready
endpoint default/both fd44:0:0:1::3  node node-a  ready

service default/six  NodePort  clusterIP fd00:96::8:3  port http 80→8080/tcp  nodePort 30030  port sig 38412→38412/sctp  nodePort 30031
endpoint default/six fd44:0:0:2::3  node node-b  ready

service default/empty  NodePort  clusterIP 10.96.80.4  port http 80→8080/tcp  nodePort 30040

service default/node-local  NodePort  clusterIP 10.96.80.5  port http 80→8080/tcp  nodePort 30050  port dns 53→9090/udp  nodePort 30051  port sig 38412→38412/sctp  nodePort 30052  externalTrafficPolicy Local
endpoint default/node-local 10.244.1.5  node node-a  ready
endpoint default/node-local 10.244.2.5  node node-b  ready

service default/node-remote  NodePort  clusterIP 10.96.80.6  port http 80→8080/tcp  nodePort 30060  externalTrafficPolicy Local
endpoint default/node-remote 10.244.2.6  node node-b  ready

service default/inside-local  ClusterIP  clusterIP 10.96.80.7  port http 80→8080/tcp  internalTrafficPolicy Local
endpoint default/inside-local 10.244.1.7  node node-a  ready
endpoint default/inside-local 10.244.2.7  node node-b  ready

service default/inside-remote  ClusterIP  clusterIP 10.96.80.8  port http 80→8080/tcp  internalTrafficPolicy Local
endpoint default/inside-remote 10.244.2.8  node node-b  ready

service default/inside-remote-outside  NodePort  clusterIP 10.96.80.9  port http 80→8080/tcp  nodePort 30090  internalTrafficPolicy Local
endpoint default/inside-remote-outside 10.244.2.9  node node-b  ready

service default/balanced  LoadBalancer 198.51.100.10 2001:db8:2::10  clusterIP 10.96.80.10,fd00:96::8:10  port http 80→8080/tcp  nodePort 30100
endpoint default/balanced 10.244.1.10  node node-a  ready
endpoint default/balanced fd44:0:0:2::10  node node-b  ready

service default/ranged  LoadBalancer 198.51.100.11 2001:db8:2::11  clusterIP 10.96.80.11,fd00:96::8:11  port http 80→8080/tcp  nodePort 30110  port dns 53→9090/udp  nodePort 30111  sourceRanges 203.0.113.0/24,203.0.113.77/32,2001:db8:f::/48
endpoint default/ranged 10.244.1.11  node node-a  ready
endpoint default/ranged fd44:0:0:2::11  node node-b  ready

service default/ranged-with-node  LoadBalancer 198.51.100.12  clusterIP 10.96.80.12  port http 80→8080/tcp  sourceRanges 203.0.113.0/24,192.0.2.0/24
endpoint default/ranged-with-node 10.244.2.12  node node-b  ready

service default/ranged-by-all  LoadBalancer 198.51.100.13  clusterIP 10.96.80.13  port http 80→8080/tcp  nodePort 30130  sourceRanges 0.0.0.0/0,203.0.113.0/24
endpoint default/ranged-by-all 10.244.2.13  node node-b  ready

service default/balanced-local  LoadBalancer 198.51.100.14  clusterIP 10.96.80.14  port http 80→8080/tcp  nodePort 30140  externalTrafficPolicy Local  healthCheckNodePort 32014
endpoint default/balanced-local 10.244.1.14  node node-a  ready
endpoint default/balanced-local 10.244.2.14  node node-b  ready

service default/balanced-remote  LoadBalancer 198.51.100.15  clusterIP 10.96.80.15  port http 80→8080/tcp  nodePort 30150  externalTrafficPolicy Local  healthCheckNodePort 32015  sourceRanges 203.0.113.0/24
endpoint default/balanced-remote 10.244.2.15  node node-b  ready

service default/not-ours  LoadBalancer 198.51.100.16  clusterIP 10.96.80.16  port http 80→8080/tcp  nodePort 30160  ipMode Proxy
endpoint default/not-ours 10.244.2.16  node node-b  ready

service default/external  ClusterIP  clusterIP 10.96.80.17  port http 80→8080/tcp  externalIP 198.51.100.77,2001:db8:1::17
endpoint default/external 10.244.2.17  node node-b  ready

service default/external-local  NodePort  clusterIP 10.96.80.18  port http 80→8080/tcp  nodePort 30180  externalIP 198.51.100.78  externalTrafficPolicy Local
endpoint default/external-local 10.244.1.18  node node-a  ready
endpoint default/external-local 10.244.2.18  node node-b  ready

service default/external-of-node  ClusterIP  clusterIP 10.96.80.19  port http 8099→8080/tcp  externalIP 192.0.2.77
endpoint default/external-of-node 10.244.2.19  node node-b  ready

service default/leaving  NodePort  clusterIP 10.96.80.20  port http 80→8080/tcp  nodePort 30200  externalTrafficPolicy Local
endpoint default/leaving 10.244.1.20  node node-a  terminating
endpoint default/leaving 10.244.1.21  node node-a  terminated
endpoint default/leaving 10.244.2.20  node node-b  ready

service default/all-leaving  ClusterIP  clusterIP 10.96.80.21  port http 80→8080/tcp
endpoint default/all-leaving 10.244.1.22  node node-a  terminating
endpoint default/all-leaving 10.244.2.22  node node-b  terminated
";
