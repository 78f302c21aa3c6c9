//! What a scrape shows.

use std::error::Error;

use ferrule_backends::metrics::DURATION_BUCKETS;
use ferrule_watch::server::{RequestKind, RequestSample, Target};

use super::kube_proxy::programming_buckets;
use ferrule_backends::{backend, iptables, nftables};
use ferrule_plan::ProxyMode;

use super::*;

fn metrics() -> Metrics {
    with_backend(&nftables::metrics::METRICS)
}

fn with_backend(backend: &[&'static MetricDeclaration]) -> Metrics {
    let (gates, _) = Gates::configured(&std::collections::BTreeMap::new()).expect("the default gates");
    Metrics::new(&gates, backend).expect("every metric is declared once")
}

fn text(metrics: &Metrics) -> String {
    String::from_utf8(metrics.scrape()).expect("text")
}

#[test]
fn series_with_labels_appear_with_the_first_use() {
    let metrics = metrics();
    assert!(!text(&metrics).contains("kubeproxy_sync_proxy_rules_duration_seconds"));
    metrics.sync_ended(IpFamily::V4, SyncKind::Partial, Duration::from_millis(3));
    let scraped = text(&metrics);
    for line in [
        "# HELP kubeproxy_sync_proxy_rules_duration_seconds [ALPHA] ",
        "# TYPE kubeproxy_sync_proxy_rules_duration_seconds histogram",
        "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.002\"} 0",
        "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"0.004\"} 1",
        "kubeproxy_sync_proxy_rules_duration_seconds_bucket{ip_family=\"IPv4\",le=\"16.384\"} 1",
        "kubeproxy_sync_partial_proxy_rules_duration_seconds_count{ip_family=\"IPv4\"} 1",
        "kubeproxy_sync_proxy_rules_endpoint_changes_pending 0",
        "kubernetes_feature_enabled{name=\"NFTablesProxyMode\",stage=\"\"} 1",
    ] {
        assert!(scraped.contains(line), "{line} is not in\n{scraped}");
    }
    assert!(!scraped.contains("sync_full_proxy_rules"));
}

#[test]
fn buckets_are_kube_proxys() {
    let doubling = DURATION_BUCKETS.windows(2).all(|pair| pair[1].to_bits() == (2.0 * pair[0]).to_bits());
    assert!(doubling && DURATION_BUCKETS.len() == 15);
    let programming = programming_buckets();
    assert_eq!(programming.len(), 81);
    assert_eq!(programming[..5], [0.0, 0.25, 0.5, 1.0, 2.0]);
    assert_eq!(programming[61..65], [59.0, 60.0, 65.0, 70.0]);
    assert_eq!(programming[73..], [115.0, 120.0, 150.0, 180.0, 210.0, 240.0, 270.0, 300.0]);
}

/// Row: server 5
#[test]
fn a_mode_has_the_metrics_that_its_backend_declares_and_no_others() {
    let modes = [
        (&nftables::metrics::METRICS[..], "nftables_sync_failures_total", "iptables_restore_failures_total"),
        (&iptables::metrics::METRICS[..], "iptables_restore_failures_total", "nftables_sync_failures_total"),
    ];
    for (declared, own, other) in modes {
        let metrics = with_backend(declared);
        metrics.record(&Sample::increment(&nftables::metrics::SYNC_FAILURES, IpFamily::V6));
        metrics.record(&Sample::increment(&iptables::metrics::RESTORE_FAILURES, IpFamily::V6));
        let scraped = text(&metrics);
        let name = format!("kubeproxy_sync_proxy_rules_{own}");
        let lines = [
            format!("# HELP {name} [ALPHA] "),
            format!("# TYPE {name} counter"),
            format!("{name}{{ip_family=\"IPv6\"}} 1\n"),
        ];
        for line in lines {
            assert!(scraped.contains(&line), "{line} is not in\n{scraped}");
        }
        assert!(!scraped.contains(other), "{scraped}");
    }
}

/// Row: server 5
#[test]
fn samples_add_up_replace_or_are_observed() {
    let metrics = with_backend(&iptables::metrics::METRICS);
    for seconds in [0.003, 0.5] {
        metrics.record(&Sample::for_family(&iptables::metrics::LOCK_WAIT, IpFamily::V4, seconds));
        metrics.record(&Sample::increment(&iptables::metrics::RESTORE_FAILURES, IpFamily::V4));
        metrics.record(&Sample::increment(&iptables::metrics::PARTIAL_RESTORE_FAILURES, IpFamily::V4));
        metrics.count_failure(IpFamily::V4);
    }
    for (total, written) in [(40, 4), (41, 1)] {
        let samples = iptables::metrics::rule_samples("nat", IpFamily::V4, total, written);
        for sample in &samples {
            metrics.record(sample);
        }
    }
    let scraped = text(&metrics);
    for line in [
        "ferrule_iptables_lock_wait_seconds_bucket{ip_family=\"IPv4\",le=\"0.004\"} 1",
        "ferrule_iptables_lock_wait_seconds_count{ip_family=\"IPv4\"} 2",
        "kubeproxy_sync_proxy_rules_iptables_partial_restore_failures_total{ip_family=\"IPv4\"} 2",
        "kubeproxy_sync_proxy_rules_iptables_total{ip_family=\"IPv4\",table=\"nat\"} 41",
        "kubeproxy_sync_proxy_rules_iptables_last{ip_family=\"IPv4\",table=\"nat\"} 1",
        "ferrule_sync_failures_total{ip_family=\"IPv4\"} 2",
    ] {
        assert!(scraped.contains(line), "{line} is not in\n{scraped}");
    }
}

static PACKETS: MetricDeclaration = MetricDeclaration {
    name: "kubeproxy_packets_total",
    help: "Packets",
    kind: ferrule_backends::metrics::MetricKind::Counter,
    labels: &[],
};

struct Packets(std::result::Result<f64, &'static str>);

impl ScrapeSource for Packets {
    fn metric(&self) -> &'static MetricDeclaration {
        &PACKETS
    }

    fn samples(&self) -> std::result::Result<Vec<Sample>, Box<dyn Error + Send + Sync>> {
        Ok(vec![Sample::new(&PACKETS, &[], self.0?)])
    }
}

#[test]
fn a_source_is_read_at_each_scrape_and_left_out_if_that_fails() {
    let metrics = metrics();
    metrics.add_source(Box::new(Packets(Ok(7.0)))).expect("not declared before");
    for _ in 0..2 {
        let scraped = text(&metrics);
        assert!(scraped.contains("# HELP kubeproxy_packets_total [ALPHA] Packets\n"), "{scraped}");
        assert!(scraped.contains("\nkubeproxy_packets_total 7\n"), "{scraped}");
    }
    let metrics = self::metrics();
    metrics.add_source(Box::new(Packets(Err("gone")))).expect("not declared before");
    assert!(!text(&metrics).contains("kubeproxy_packets_total"));
}

#[test]
fn the_process_is_described() {
    let scraped = text(&metrics());
    for name in ["process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds"] {
        let line = scraped.lines().find(|line| line.starts_with(name)).expect(name);
        let value: f64 = line.rsplit(' ').next().and_then(|text| text.parse().ok()).expect("a number");
        assert!(value >= 0.0, "{line}");
    }
    let started =
        scraped.lines().find(|line| line.starts_with("process_start_time_seconds")).expect("a start");
    let at: f64 = started.rsplit(' ').next().and_then(|text| text.parse().ok()).expect("a number");
    assert!(at > 1.7e9, "{started}");
}

fn asked(method: &str, kind: RequestKind) -> ClientMetric {
    let target = Target { method: method.into(), host: "api:6443".into() };
    let latency = Duration::from_millis(20);
    ClientMetric::Request(RequestSample { target, code: "200".into(), latency, request_bytes: 300, kind })
}

/// Row: server 5
#[test]
fn a_watch_counts_as_a_request_and_has_neither_duration_nor_size() {
    let metrics = metrics();
    let watch = RequestKind { is_watch: true, is_retry: false, throttled_for: None };
    metrics.api_asked(&asked("GET", watch));
    let requests = "rest_client_requests_total{code=\"200\",host=\"api:6443\",method=\"GET\"} 1";
    let scraped = text(&metrics);
    assert!(scraped.contains(requests), "{scraped}");
    for other in ["duration_seconds", "size_bytes", "retries_total"] {
        assert!(
            !scraped.lines().any(|line| line.starts_with("rest_client_") && line.contains(other)),
            "{scraped}"
        );
    }
}

/// Row: server 5
#[test]
fn requests_are_told_by_time_size_wait_and_whether_they_were_repeated() {
    let metrics = metrics();
    let throttled_for = Some(Duration::from_millis(150));
    metrics.api_asked(&asked("POST", RequestKind { is_watch: false, is_retry: true, throttled_for }));
    let target = Target { method: "POST".into(), host: "api:6443".into() };
    metrics.api_asked(&ClientMetric::Response { target, bytes: 2000 });
    let scraped = text(&metrics);
    for line in [
        "rest_client_request_duration_seconds_bucket{host=\"api:6443\",verb=\"POST\",le=\"0.005\"} 0",
        "rest_client_request_duration_seconds_bucket{host=\"api:6443\",verb=\"POST\",le=\"0.025\"} 1",
        "rest_client_rate_limiter_duration_seconds_bucket{host=\"api:6443\",verb=\"POST\",le=\"0.25\"} 1",
        "rest_client_request_size_bytes_bucket{host=\"api:6443\",verb=\"POST\",le=\"512\"} 1",
        "rest_client_response_size_bytes_bucket{host=\"api:6443\",verb=\"POST\",le=\"1024\"} 0",
        "rest_client_response_size_bytes_bucket{host=\"api:6443\",verb=\"POST\",le=\"4096\"} 1",
        "rest_client_response_size_bytes_bucket{host=\"api:6443\",verb=\"POST\",le=\"1.6777216e+07\"} 1",
        "rest_client_request_retries_total{code=\"200\",host=\"api:6443\",verb=\"POST\"} 1",
        "# HELP rest_client_request_retries_total [ALPHA] ",
    ] {
        assert!(scraped.contains(line), "{line} is not in\n{scraped}");
    }
}

/// What is registered has its name, so another metric cannot have it.
#[test]
fn every_metric_of_the_rules_and_the_dashboard_exists() {
    let declared = ProxyMode::ALL.map(|mode| with_backend(backend(mode).metrics()));
    let exists = |name: &str| {
        declared.iter().any(|metrics| {
            let another = prometheus::IntGauge::new(name, "another").expect("a metric");
            metrics.registry.register(Box::new(another)).is_err()
        })
    };
    // Those of the relay are registered by a proxy that runs; a test in the folder `packaging` asks one.
    let names = ferrule_testkit::monitoring::metric_names();
    let missing: Vec<_> =
        names.into_iter().filter(|name| !name.starts_with("ferrule_relay_") && !exists(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(!exists("kubeproxy_no_such_metric"));
}
