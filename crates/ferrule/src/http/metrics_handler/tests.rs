//! Handler asked without a socket.

use std::time::Duration;

use ferrule_config::gates::Gates;

use super::*;
use crate::events::Recorder;
use crate::metrics::Metrics;

fn handler(profiling: bool) -> MetricsHandler {
    let metrics = Metrics::new(&Gates::default(), &[]).expect("every metric is declared once");
    let (configz, sync_period) = ("{}".to_owned(), Duration::from_secs(30));
    let status = Status::new(metrics, Recorder::disabled(), configz, sync_period);
    let flags = Some(vec![("v".to_owned(), "2".to_owned())]);
    let options = PageOptions {
        mode: ProxyMode::Nftables,
        flags,
        statusz: true,
        profiling,
        started: (Timestamp::UNIX_EPOCH, Instant::now()),
        inspector: None,
        status_page: StatusPage::Served,
        counters: None,
    };
    MetricsHandler::new(Arc::new(status), options, LogHandle::default(), Arc::new(Connections::new(64)))
}

fn body(response: &Response) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

#[test]
fn small_pages_say_what_kube_proxys_say() {
    let handler = handler(false);
    for (path, expected) in [
        ("/healthz", "ok"),
        ("/healthz/ping", "ok"),
        ("/healthz?verbose", "[+]ping ok\nhealthz check passed\n"),
        ("/healthz?verbose&exclude=ping", "[+]ping excluded: ok\nhealthz check passed\n"),
        ("/proxyMode", "nftables"),
        ("/configz", "{}"),
    ] {
        let response = handler.handle(&Request::get(path));
        assert_eq!((response.status, body(&response).as_str()), (200, expected), "{path}");
    }
    for path in ["/", "/livez", "/readyz", "/healthz/", "/debug/flags/v"] {
        let response = handler.handle(&Request::get(path));
        assert_eq!((response.status, body(&response).as_str()), (404, "404 page not found\n"), "{path}");
    }
}

#[test]
fn a_scrape_has_its_headers_and_can_be_compressed() {
    let handler = handler(false);
    let plain = handler.handle(&Request::get("/metrics"));
    let header = |response: &Response, name: &str| {
        response.headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    assert_eq!(header(&plain, "content-type").as_deref(), Some(kind));
    assert_eq!(header(&plain, "process-start-time-unix").as_deref(), Some("0"));
    let packed = handler.handle(&Request { accepts_gzip: true, ..Request::get("/metrics") });
    assert_eq!(header(&packed, "content-encoding").as_deref(), Some("gzip"));
    assert!(packed.body.len() * 4 < plain.body.len());
}

#[test]
fn slis_count_health_checks_and_can_be_reset() {
    let handler = handler(false);
    assert!(!body(&handler.handle(&Request::get("/metrics/slis"))).contains("kubernetes_healthcheck"));
    handler.handle(&Request::get("/healthz"));
    let counted = "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 1";
    assert!(body(&handler.handle(&Request::get("/metrics/slis"))).contains(counted));
    let reset = handler.handle(&Request { method: Method::Delete, ..Request::get("/metrics/slis") });
    assert_eq!(body(&reset), "metrics reset\n");
    assert!(!body(&handler.handle(&Request::get("/metrics/slis"))).contains("kubernetes_healthcheck"));
}

#[test]
fn verbosity_is_put() {
    let handler = handler(true);
    let put = |text: &str| {
        let request = Request { method: Method::Put, body: text.into(), ..Request::get("/debug/flags/v") };
        handler.handle(&request)
    };
    assert_eq!(handler.handle(&Request::get("/debug/flags/v")).status, 406);
    assert!(body(&put("4")).ends_with(" 4\n"));
    assert_eq!(put("many").status, 400);
}

#[test]
fn flags_and_status_come_as_text_and_as_objects() {
    let handler = handler(false);
    let text = body(&handler.handle(&Request::get("/flagz")));
    assert!(text.starts_with("\nkube-proxy flagz\nWarning: "), "{text}");
    let accept = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz".to_owned();
    let response = handler.handle(&Request { accept, ..Request::get("/statusz") });
    let object: serde_json::Value = serde_json::from_str(&body(&response)).expect("JSON");
    assert_eq!(object["kind"], "Statusz");
    assert_eq!(object["binaryVersion"], "1.37.1");
    assert_eq!(object["paths"][0], "/configz");
}
