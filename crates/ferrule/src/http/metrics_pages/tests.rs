//! Pages asked without a socket.

use std::time::Duration;

use super::*;
use crate::events::Recorder;
use crate::gates::Gates;
use crate::metrics::Metrics;

fn pages(profiling: bool) -> MetricsPages {
    let metrics = Metrics::new(&Gates::default()).expect("every metric is declared once");
    let in_effect = ("{}".to_owned(), Duration::from_secs(30));
    let status = Status::new(metrics, in_effect, Recorder::nowhere());
    let flags = Some(vec![("v".to_owned(), "2".to_owned())]);
    let facts = Facts {
        mode: ProxyMode::Nftables,
        flags,
        statusz: true,
        profiling,
        started: (Timestamp::UNIX_EPOCH, Instant::now()),
    };
    MetricsPages::new(Arc::new(status), facts, LogHandle::default(), Arc::new(Connections::new(64)))
}

fn body(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

#[test]
fn small_pages_say_what_kube_proxys_say() {
    let pages = pages(false);
    for (path, expected) in [
        ("/healthz", "ok"),
        ("/healthz/ping", "ok"),
        ("/healthz?verbose", "[+]ping ok\nhealthz check passed\n"),
        ("/healthz?verbose&exclude=ping", "[+]ping excluded: ok\nhealthz check passed\n"),
        ("/proxyMode", "nftables"),
        ("/configz", "{}"),
    ] {
        let answer = pages.answer(&Question::get(path));
        assert_eq!((answer.status, body(&answer).as_str()), (200, expected), "{path}");
    }
    for path in ["/", "/livez", "/readyz", "/healthz/", "/debug/flags/v"] {
        let answer = pages.answer(&Question::get(path));
        assert_eq!((answer.status, body(&answer).as_str()), (404, "404 page not found\n"), "{path}");
    }
}

#[test]
fn a_scrape_has_its_headers_and_can_be_compressed() {
    let pages = pages(false);
    let plain = pages.answer(&Question::get("/metrics"));
    let header = |answer: &Answer, name: &str| {
        answer.headers.iter().find(|(key, _)| *key == name).map(|(_, value)| value.clone())
    };
    let kind = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";
    assert_eq!(header(&plain, "content-type").as_deref(), Some(kind));
    assert_eq!(header(&plain, "process-start-time-unix").as_deref(), Some("0"));
    let packed = pages.answer(&Question { accepts_gzip: true, ..Question::get("/metrics") });
    assert_eq!(header(&packed, "content-encoding").as_deref(), Some("gzip"));
    assert!(packed.body.len() * 4 < plain.body.len());
}

#[test]
fn slis_count_health_checks_and_can_be_reset() {
    let pages = pages(false);
    assert!(!body(&pages.answer(&Question::get("/metrics/slis"))).contains("kubernetes_healthcheck"));
    pages.answer(&Question::get("/healthz"));
    let counted = "kubernetes_healthchecks_total{name=\"ping\",status=\"success\",type=\"healthz\"} 1";
    assert!(body(&pages.answer(&Question::get("/metrics/slis"))).contains(counted));
    let reset = pages.answer(&Question { method: Method::Delete, ..Question::get("/metrics/slis") });
    assert_eq!(body(&reset), "metrics reset\n");
    assert!(!body(&pages.answer(&Question::get("/metrics/slis"))).contains("kubernetes_healthcheck"));
}

#[test]
fn verbosity_is_put() {
    let pages = pages(true);
    let put = |text: &str| {
        let question = Question { method: Method::Put, body: text.into(), ..Question::get("/debug/flags/v") };
        pages.answer(&question)
    };
    assert_eq!(pages.answer(&Question::get("/debug/flags/v")).status, 406);
    assert!(body(&put("4")).ends_with(" 4\n"));
    assert_eq!(put("many").status, 400);
}

#[test]
fn flags_and_status_come_as_text_and_as_objects() {
    let pages = pages(false);
    let text = body(&pages.answer(&Question::get("/flagz")));
    assert!(text.starts_with("\nkube-proxy flagz\nWarning: "), "{text}");
    let accept = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz".to_owned();
    let answer = pages.answer(&Question { accept, ..Question::get("/statusz") });
    let object: serde_json::Value = serde_json::from_str(&body(&answer)).expect("JSON");
    assert_eq!(object["kind"], "Statusz");
    assert_eq!(object["binaryVersion"], "1.37.1");
    assert_eq!(object["paths"][0], "/configz");
}
