//! Tests against the real kernel, each in a network namespace of its own.

#[cfg(test)]
mod dummy;
#[cfg(test)]
mod foreign_tables;
#[cfg(test)]
mod host;
#[cfg(test)]
mod ipset;
#[cfg(test)]
mod iptables_beside;
#[cfg(test)]
mod iptables_client;
#[cfg(test)]
mod iptables_encoding;
#[cfg(test)]
mod iptables_scale;
#[cfg(test)]
mod ipvs;
#[cfg(test)]
mod notifications;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tables;
