//! The metrics of the mode that runs, registered from what its backend declares.

use std::collections::BTreeMap;
use std::error::Error;

use ferrule_backends::metrics::{MetricDeclaration, MetricKind, Sample, ScrapeSource};
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{CounterVec, GaugeVec, HistogramOpts, HistogramVec, Opts, Registry, Result};
use tracing::error;

use super::registrar::STABILITY;
use ferrule_model::with_causes;

/// What the backend's samples are recorded in.
pub(super) struct BackendMetrics {
    by_name: BTreeMap<&'static str, SeriesSet>,
}

/// All series of one declared metric.
#[derive(Clone)]
enum SeriesSet {
    Counter(CounterVec),
    Gauge(GaugeVec),
    Histogram(HistogramVec),
}

/// Reads one of the backend's sources at each scrape.
pub(super) struct ScrapeCollector {
    source: Box<dyn ScrapeSource>,
    /// Stays empty; describes the series.
    empty: SeriesSet,
}

impl BackendMetrics {
    pub(super) fn new(declarations: &[&'static MetricDeclaration], registry: &Registry) -> Result<Self> {
        let mut by_name = BTreeMap::new();
        for declaration in declarations {
            let series = SeriesSet::new(declaration)?;
            registry.register(Box::new(series.clone()))?;
            by_name.insert(declaration.name, series);
        }
        Ok(Self { by_name })
    }

    /// Ignores a metric that the mode did not declare: kube-proxy does not expose it in this mode either.
    pub(super) fn record(&self, sample: &Sample) {
        let Some(series) = self.by_name.get(sample.metric.name) else { return };
        if let Err(error) = series.record(sample) {
            error!(metric = sample.metric.name, err = with_causes(&error), "Cannot record a metric");
        }
    }
}

impl SeriesSet {
    fn new(declaration: &MetricDeclaration) -> Result<Self> {
        let is_kube_proxys = declaration.name.starts_with("kubeproxy_");
        let help = format!("{}{}", if is_kube_proxys { STABILITY } else { "" }, declaration.help);
        let opts = Opts::new(declaration.name, help);
        Ok(match declaration.kind {
            MetricKind::Counter => Self::Counter(CounterVec::new(opts, declaration.labels)?),
            MetricKind::Gauge => Self::Gauge(GaugeVec::new(opts, declaration.labels)?),
            MetricKind::Histogram { buckets } => {
                let opts = HistogramOpts::from(opts).buckets(buckets.to_vec());
                Self::Histogram(HistogramVec::new(opts, declaration.labels)?)
            }
        })
    }

    fn record(&self, sample: &Sample) -> Result<()> {
        let labels = &sample.labels;
        match self {
            Self::Counter(counters) => counters.get_metric_with_label_values(labels)?.inc_by(sample.value),
            Self::Gauge(gauges) => gauges.get_metric_with_label_values(labels)?.set(sample.value),
            Self::Histogram(histograms) => {
                histograms.get_metric_with_label_values(labels)?.observe(sample.value);
            }
        }
        Ok(())
    }

    fn collector(&self) -> &dyn Collector {
        match self {
            Self::Counter(counters) => counters,
            Self::Gauge(gauges) => gauges,
            Self::Histogram(histograms) => histograms,
        }
    }
}

impl Collector for SeriesSet {
    fn desc(&self) -> Vec<&Desc> {
        self.collector().desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.collector().collect()
    }
}

impl ScrapeCollector {
    pub(super) fn new(source: Box<dyn ScrapeSource>) -> Result<Self> {
        let empty = SeriesSet::new(source.metric())?;
        Ok(Self { source, empty })
    }

    fn read(&self) -> std::result::Result<Vec<MetricFamily>, Box<dyn Error + Send + Sync>> {
        let series = SeriesSet::new(self.source.metric())?;
        for sample in self.source.samples()? {
            series.record(&sample)?;
        }
        Ok(series.collect())
    }
}

impl Collector for ScrapeCollector {
    fn desc(&self) -> Vec<&Desc> {
        self.empty.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.read().unwrap_or_else(|error| {
            let err = with_causes(error.as_ref());
            error!(metric = self.source.metric().name, err, "Cannot read a metric, it is left out");
            Vec::new()
        })
    }
}
