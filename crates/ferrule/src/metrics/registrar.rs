//! Creates and registers metrics: kube-proxy's with its prefix and stability, ours as named.

use prometheus::core::Collector;
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    Result,
};

use ferrule_backends::metrics::{DURATION_BUCKETS, FAMILY};

/// The stability of every metric of kube-proxy's, in front of its HELP text.
pub(super) const STABILITY: &str = "[ALPHA] ";

/// Registers what it creates.
pub(super) struct Registrar {
    pub registry: Registry,
}

impl Registrar {
    pub(super) fn register<M: Collector + Clone + 'static>(&self, metric: M) -> Result<M> {
        self.registry.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    pub(super) fn durations(&self, name: &str, help: &str) -> Result<HistogramVec> {
        self.histograms(name, help, DURATION_BUCKETS.to_vec())
    }

    pub(super) fn histograms(&self, name: &str, help: &str, buckets: Vec<f64>) -> Result<HistogramVec> {
        let opts = HistogramOpts::from(kube_proxy_opts(name, help)).buckets(buckets);
        self.register(HistogramVec::new(opts, &[FAMILY])?)
    }

    pub(super) fn gauges(&self, name: &str, help: &str) -> Result<GaugeVec> {
        self.register(GaugeVec::new(kube_proxy_opts(name, help), &[FAMILY])?)
    }

    pub(super) fn int_gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec> {
        self.register(IntGaugeVec::new(kube_proxy_opts(name, help), labels)?)
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> Result<IntGauge> {
        self.register(IntGauge::with_opts(kube_proxy_opts(name, help))?)
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> Result<IntCounter> {
        self.register(IntCounter::with_opts(kube_proxy_opts(name, help))?)
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec> {
        self.register(IntCounterVec::new(kube_proxy_opts(name, help), labels)?)
    }

    pub(super) fn own_counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec> {
        self.register(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn own_gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec> {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn own_gauge(&self, name: &str, help: &str) -> Result<IntGauge> {
        self.register(IntGauge::new(name, help)?)
    }
}

fn kube_proxy_opts(name: &str, help: &str) -> Opts {
    Opts::new(format!("kubeproxy_{name}"), format!("{STABILITY}{help}"))
}
