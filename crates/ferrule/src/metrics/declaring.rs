//! How metrics are declared: kube-proxy's under its names, ours under our own.

use prometheus::core::Collector;
use prometheus::{
    GaugeVec, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
    Result,
};

use super::{FAMILY, doubling};

/// Where something is declared.
pub(super) struct Declaring {
    pub registry: Registry,
}

impl Declaring {
    pub(super) fn declared<M: Collector + Clone + 'static>(&self, metric: M) -> Result<M> {
        self.registry.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    pub(super) fn durations(&self, name: &str, help: &str) -> Result<HistogramVec> {
        self.histograms(name, help, doubling())
    }

    pub(super) fn histograms(&self, name: &str, help: &str, buckets: Vec<f64>) -> Result<HistogramVec> {
        let opts = HistogramOpts::from(kube_proxys(name, help)).buckets(buckets);
        self.declared(HistogramVec::new(opts, &[FAMILY])?)
    }

    pub(super) fn gauges(&self, name: &str, help: &str) -> Result<GaugeVec> {
        self.declared(GaugeVec::new(kube_proxys(name, help), &[FAMILY])?)
    }

    pub(super) fn int_gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec> {
        self.declared(IntGaugeVec::new(kube_proxys(name, help), labels)?)
    }

    pub(super) fn gauge(&self, name: &str, help: &str) -> Result<IntGauge> {
        self.declared(IntGauge::with_opts(kube_proxys(name, help))?)
    }

    pub(super) fn counter(&self, name: &str, help: &str) -> Result<IntCounter> {
        self.declared(IntCounter::with_opts(kube_proxys(name, help))?)
    }

    pub(super) fn counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec> {
        self.declared(IntCounterVec::new(kube_proxys(name, help), labels)?)
    }

    pub(super) fn own_durations(&self, name: &str, help: &str) -> Result<HistogramVec> {
        let opts = HistogramOpts::new(name, help).buckets(doubling());
        self.declared(HistogramVec::new(opts, &[FAMILY])?)
    }

    pub(super) fn own_counters(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec> {
        self.declared(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn own_gauges(&self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec> {
        self.declared(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    pub(super) fn own_gauge(&self, name: &str, help: &str) -> Result<IntGauge> {
        self.declared(IntGauge::new(name, help)?)
    }
}

/// One of kube-proxy's own, all of which are alpha.
pub(super) fn kube_proxys(name: &str, help: &str) -> Opts {
    Opts::new(format!("kubeproxy_{name}"), format!("[ALPHA] {help}"))
}
