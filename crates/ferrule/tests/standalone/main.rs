//! The program itself, serving a folder of manifests on a real kernel, asked with real packets.

mod configuration;
mod drift;
mod ending;
mod failures;
mod fakes;
mod flows;
mod iptables;
mod iptables_localnet;
mod iptables_lock;
mod iptables_netlink;
mod iptables_programs;
mod iptables_quarantine;
mod iptables_slow;
mod iptables_told;
mod localhost;
mod logs;
mod ports;
mod profiles;
mod refusals;
mod restart;
mod rights;
mod serving;
mod stand;
mod userspace;
