//! The program itself, serving a folder of manifests on a real kernel, asked with real packets.

mod configuration;
mod drift;
mod ending;
mod failures;
mod flows;
mod iptables;
mod iptables_told;
mod logs;
mod ports;
mod profiles;
mod refusals;
mod restart;
mod serving;
mod stand;
