# Headless Services and ExternalName Services have no address of ours, whatever endpoints they have.
-- cluster --
service db  clusterIP None  port sql 5432
service elsewhere  ExternalName  clusterIP 10.96.0.12  port http 80
endpoint db 10.244.2.5  node b
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- plan --
nothing
-- diagnostics --
nothing
-- packets --
FROM        TO             OUTCOME
10.244.1.3  10.96.0.12:80  untouched
-- then: service db clusterIP 10.96.0.11 port sql 5432 --
-- packets --
FROM        TO               OUTCOME
10.244.1.3  10.96.0.11:5432  10.244.2.5:5432
