# The count of Services without local endpoints is by port in the other modes, and by Service in ipvs mode.
-- proxy --
mode ipvs
-- cluster --
service web  NodePort  clusterIP 10.96.0.10  port http 80→8080  nodePort 30080  port https 443→8443  nodePort 30443  externalTrafficPolicy Local
endpoint web 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- counts --
IPv4 without local endpoints: internal 0, external 1
IPv6 without local endpoints: internal 0, external 0
-- proxy --
mode iptables
-- counts --
IPv4 without local endpoints: internal 0, external 2
IPv6 without local endpoints: internal 0, external 0
