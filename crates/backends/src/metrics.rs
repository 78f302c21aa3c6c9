//! A backend's metrics as plain data: what it declares, and the samples it reports.
//!
//! Knows no metrics library and keeps no values: the program registers the declarations of the mode that runs and
//! records the samples. A metric that every mode has is declared there, one that only some modes have beside its backend,
//! for example in [`crate::iptables::metrics`].

use std::error::Error;

use ferrule_model::IpFamily;

/// The label that tells the two families apart, with the values of [`family_label`].
pub const FAMILY: &str = "ip_family";

/// kube-proxy's buckets for durations in seconds: from a millisecond, doubling.
pub const DURATION_BUCKETS: [f64; 15] = [
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];

/// Modes that know a full and a partial sync declare this one and [`PARTIAL_SYNC_DURATION`].
pub static FULL_SYNC_DURATION: MetricDeclaration = MetricDeclaration {
    name: "kubeproxy_sync_full_proxy_rules_duration_seconds",
    help: "Time a sync of everything took, in seconds",
    kind: MetricKind::Histogram { buckets: &DURATION_BUCKETS },
    labels: &[FAMILY],
};

/// See [`FULL_SYNC_DURATION`].
pub static PARTIAL_SYNC_DURATION: MetricDeclaration = MetricDeclaration {
    name: "kubeproxy_sync_partial_proxy_rules_duration_seconds",
    help: "Time a sync of what changed took, in seconds",
    kind: MetricKind::Histogram { buckets: &DURATION_BUCKETS },
    labels: &[FAMILY],
};

/// One metric: a name, and how its series look.
#[derive(Debug, PartialEq)]
pub struct MetricDeclaration {
    /// The whole name, as a scrape shows it. Those that begin with `kubeproxy_` are kube-proxy's, and alpha.
    pub name: &'static str,
    /// The text behind HELP, without its stability.
    pub help: &'static str,
    /// What recording a sample does.
    pub kind: MetricKind,
    /// The names of the labels; samples give their values in this order.
    pub labels: &'static [&'static str],
}

/// What recording a sample does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// Adds the value.
    Counter,
    /// Replaces the value.
    Gauge,
    /// Observes the value.
    Histogram {
        /// The upper bounds, ascending, without the infinite one.
        buckets: &'static [f64],
    },
}

/// One value of one series.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// The declaration; its kind says what becomes of the value.
    pub metric: &'static MetricDeclaration,
    /// A value for each label of the declaration, in its order.
    pub labels: Vec<&'static str>,
    /// What is added, set or observed.
    pub value: f64,
}

impl Sample {
    /// A sample with these label values.
    pub fn new(metric: &'static MetricDeclaration, labels: &[&'static str], value: f64) -> Self {
        Self { metric, labels: labels.to_vec(), value }
    }

    /// A sample of a metric whose only label is [`FAMILY`].
    pub fn for_family(metric: &'static MetricDeclaration, family: IpFamily, value: f64) -> Self {
        Self::new(metric, &[family_label(family)], value)
    }

    /// One more of something in a family.
    pub fn increment(metric: &'static MetricDeclaration, family: IpFamily) -> Self {
        Self::for_family(metric, family, 1.0)
    }
}

/// A metric that is read whenever metrics are scraped, because the kernel keeps it.
pub trait ScrapeSource: Send + Sync {
    /// Whose samples these are.
    fn metric(&self) -> &'static MetricDeclaration;

    /// The samples of this moment. A counter's value is the total, not what is added. After an error the metric is left
    /// out of the scrape.
    fn samples(&self) -> Result<Vec<Sample>, Box<dyn Error + Send + Sync>>;
}

/// A family as metrics spell it.
pub fn family_label(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "IPv4",
        IpFamily::V6 => "IPv6",
    }
}

/// A number of things as the value of a sample.
#[expect(clippy::cast_precision_loss, reason = "exact up to 2^53, which nothing here reaches")]
pub fn count(number: usize) -> f64 {
    number as f64
}
