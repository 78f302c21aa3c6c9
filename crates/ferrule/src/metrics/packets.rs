//! Packets that iptables rules count into named counters of the kernel, read when somebody scrapes.
//!
//! Whether rules count, and into what, is decided where they are made; a counter that is gone has no series.

use ferrule_backends::iptables::{INVALID_COUNTER, LOOPBACK_COUNTER};
use ferrule_kernel::accounting;
use ferrule_kernel::netlink::NetlinkError;
use prometheus::IntCounter;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use tracing::error;

use super::declaring::kube_proxys;
use crate::causes::with_causes;

/// A counter of the kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct PacketCounter {
    name: &'static str,
    help: &'static str,
    /// What rules call it.
    pub counter: &'static str,
}

/// How a counter is read, if it is there.
type Read = fn(&str) -> Result<Option<u64>, NetlinkError>;

/// One that is scraped.
pub(super) struct Declared {
    counter: PacketCounter,
    /// Stays at 0; gives the series its shape.
    shape: IntCounter,
    read: Read,
}

impl PacketCounter {
    pub(super) const ALL: [Self; 2] = [
        Self {
            name: "iptables_ct_state_invalid_dropped_packets_total",
            help: "Packets dropped because conntrack could not tell what they belong to",
            counter: INVALID_COUNTER,
        },
        Self {
            name: "iptables_localhost_nodeports_accepted_packets_total",
            help: "Packets to NodePorts on loopback addresses",
            counter: LOOPBACK_COUNTER,
        },
    ];

    pub(super) fn declared(self) -> prometheus::Result<Declared> {
        Ok(Declared { counter: self, shape: self.at(0)?, read: accounting::packets })
    }

    fn at(self, packets: u64) -> prometheus::Result<IntCounter> {
        let counter = IntCounter::with_opts(kube_proxys(self.name, self.help))?;
        counter.inc_by(packets);
        Ok(counter)
    }
}

impl Collector for Declared {
    fn desc(&self) -> Vec<&Desc> {
        self.shape.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let counter = self.counter;
        match (self.read)(counter.counter) {
            Ok(Some(packets)) => counter.at(packets).map(|now| now.collect()).unwrap_or_default(),
            Ok(None) => {
                error!(counter = counter.counter, "A packet counter is gone, its metric is left out");
                Vec::new()
            }
            Err(error) => {
                error!(counter = counter.counter, err = with_causes(&error), "Cannot read a packet counter");
                Vec::new()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scraped(read: Read) -> Vec<(String, f64)> {
        let of =
            |counter: PacketCounter| Declared { read, ..counter.declared().expect("a counter") }.collect();
        let value = |family: &MetricFamily| family.get_metric()[0].get_counter().get_value();
        let all = PacketCounter::ALL.into_iter().flat_map(of);
        all.map(|family| (family.name().to_owned(), value(&family))).collect()
    }

    #[test]
    fn a_counter_is_read_at_each_scrape() {
        let expected = [
            ("kubeproxy_iptables_ct_state_invalid_dropped_packets_total".to_owned(), 29.0),
            ("kubeproxy_iptables_localhost_nodeports_accepted_packets_total".to_owned(), 27.0),
        ];
        assert_eq!(scraped(|name| Ok(Some(name.len() as u64))), expected);
    }

    #[test]
    fn a_counter_that_is_gone_has_no_series() {
        assert_eq!(scraped(|_| Ok(None)), []);
    }
}
