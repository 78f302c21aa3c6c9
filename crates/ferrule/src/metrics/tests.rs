//! What a scrape shows.

use ferrule_watch::server::{Asked, Manner, Target};

use super::*;

fn metrics() -> Metrics {
    let (gates, _) = Gates::configured(&std::collections::BTreeMap::new()).expect("the default gates");
    Metrics::new(&gates).expect("every metric is declared once")
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
    assert_eq!(doubling().len(), 15);
    let programming = programming();
    assert_eq!(programming.len(), 81);
    assert_eq!(programming[..5], [0.0, 0.25, 0.5, 1.0, 2.0]);
    assert_eq!(programming[61..65], [59.0, 60.0, 65.0, 70.0]);
    assert_eq!(programming[73..], [115.0, 120.0, 150.0, 180.0, 210.0, 240.0, 270.0, 300.0]);
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

fn asked(method: &str, manner: Manner) -> Traffic {
    let to = Target { method: method.into(), host: "api:6443".into() };
    let took = Duration::from_millis(20);
    Traffic::Asked(Asked { to, code: "200".into(), took, bytes: 300, manner })
}

/// Row: server 5
#[test]
fn a_watch_counts_as_a_request_and_has_neither_duration_nor_size() {
    let metrics = metrics();
    let watch = Manner { is_watch: true, is_retry: false, waited: None };
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
    let waited = Some(Duration::from_millis(150));
    metrics.api_asked(&asked("POST", Manner { is_watch: false, is_retry: true, waited }));
    let to = Target { method: "POST".into(), host: "api:6443".into() };
    metrics.api_asked(&Traffic::Answered { to, bytes: 2000 });
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
