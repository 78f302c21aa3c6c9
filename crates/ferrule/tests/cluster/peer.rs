//! The real kube-proxy on another node of the same cluster, asked the same questions.
//!
//! What differs on purpose is in `docs/differences.md`, and taken out here by name.

use std::collections::{BTreeMap, BTreeSet};

use ferrule_testkit::Program;
use ferrule_testkit::api_server::{ApiServer, or_skip, program};
use serde_json::{Value, json};

use crate::site::{PATIENCE, PODS, Page, Site, within};

/// A namespace may not write these, and kube-proxy ends when it cannot.
const KEEP_CONNTRACK: [&str; 3] = [
    "--conntrack-max-per-core=0",
    "--conntrack-tcp-timeout-established=0",
    "--conntrack-tcp-timeout-close-wait=0",
];

struct Both<'a> {
    ours: Site<'a>,
    theirs: Site<'a>,
    programs: [Program; 2],
}

#[expect(clippy::print_stderr, reason = "a test that is passed over must say so")]
/// Both on one cluster; `None` where the real one was not built.
fn both(names: [&'static str; 2]) -> Option<Both<'static>> {
    if !or_skip() {
        return None;
    }
    let peer = program("kube-proxy");
    if !peer.exists() {
        assert!(std::env::var("CI").as_deref() != Ok("true"), "{} is not there", peer.display());
        eprintln!("skipped: {} is not there; scripts/cluster-build builds it", peer.display());
        return None;
    }
    let [ours, theirs] = names.map(|name| Site::new(ApiServer::shared(), name));
    let mut arguments = theirs.arguments();
    arguments.extend(KEEP_CONNTRACK.map(String::from));
    let real = Program::start(theirs.net.node(), &peer, &arguments).expect("kube-proxy starts");
    let own = ours.start(&KEEP_CONNTRACK);
    ours.until_ready(&own);
    let is_up = within(PATIENCE, || (theirs.get(10256, "/healthz")?.status == 200).then_some(()));
    assert!(is_up.is_some(), "kube-proxy is not up:\n{}", real.log().join("\n"));
    Some(Both { ours, theirs, programs: [own, real] })
}

impl Both<'_> {
    /// A Service whose endpoints, and checks, are local on both nodes.
    fn fill(&self) -> u16 {
        let local = json!({ "type": "LoadBalancer", "externalTrafficPolicy": "Local", "internalTrafficPolicy": "Local" });
        let made = self.ours.service("web", local);
        let endpoint = |(pod, node): (&&str, &str)| json!({ "addresses": [pod], "nodeName": node, "conditions": { "ready": true } });
        let nodes = [self.ours.name, self.theirs.name];
        let endpoints: Vec<Value> = PODS.iter().zip(nodes).map(endpoint).collect();
        let trigger = jiff::Timestamp::now().to_string();
        let slice = json!({
            "metadata": {
                "name": "web-1",
                "labels": { "kubernetes.io/service-name": "web" },
                "annotations": { "endpoints.kubernetes.io/last-change-trigger-time": trigger },
            },
            "addressType": "IPv4", "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
            "endpoints": endpoints,
        });
        self.ours.put(&self.ours.slices(), &slice);
        for site in [&self.ours, &self.theirs] {
            site.page_until(made.check_port, "/", |page| page.status == 200);
        }
        made.check_port
    }

    fn pages(&self, port: u16, path: &str) -> [Page; 2] {
        [&self.ours, &self.theirs].map(|site| site.page_until(port, path, |_| true))
    }
}

/// What a page says, but for when it was asked.
fn comparable(page: Page) -> Page {
    let headers = page.headers.into_iter().filter(|(header, _)| header != "date" && header != "connection");
    let mut headers: Vec<_> = headers.filter(|(header, _)| header != "content-length").collect();
    headers.sort();
    Page { headers, body: without_times(&page.body), ..page }
}

fn without_times(text: &str) -> String {
    let mut words = Vec::new();
    for word in text.split('"') {
        let is_time = word.len() > 18 && word.starts_with("20") && word.contains('T');
        words.push(if is_time { "TIME" } else { word });
    }
    words.join("\"")
}

/// What has no meaning here: see `docs/differences.md`.
const THEIRS_ALONE: [&str; 2] =
    ["rest_client_exec_plugin_", "rest_client_transport_cert_rotation_gc_calls_total"];

/// Every series by name and labels, without values; every type; and how stable each says it is.
fn series(metrics: &str) -> BTreeSet<String> {
    let of_both = |line: &&str| {
        let name = line.trim_start_matches("# HELP ").trim_start_matches("# TYPE ");
        let is_of_both = name.starts_with("kubeproxy_") || name.starts_with("rest_client_");
        is_of_both && !THEIRS_ALONE.iter().any(|prefix| name.starts_with(prefix))
    };
    let named = |line: &str| match line.strip_prefix("# ") {
        // The text itself is ours.
        Some(help) if help.starts_with("HELP") => help.split(' ').take(3).collect::<Vec<_>>().join(" "),
        Some(type_of) => type_of.to_owned(),
        None => line.rsplit_once(' ').map_or(line, |(series, _)| series).to_owned(),
    };
    metrics.lines().filter(of_both).map(named).collect()
}

/// Row: server 5
#[test]
fn the_scrape_has_the_same_series() {
    let Some(both) = both(["scrape-ours", "scrape-theirs"]) else { return };
    both.fill();
    both.pages(10256, "/healthz");
    both.pages(10256, "/livez");
    both.ours.change_slice("web", &PODS[1..]);
    let mut difference = BTreeMap::new();
    let same = within(PATIENCE, || {
        let [ours, theirs] = both.pages(10249, "/metrics").map(|page| series(&page.body));
        // kube-proxy watches where we list: it has the same series for what it creates.
        let is_of_lists =
            |series: &&String| theirs.contains(&series.replace("verb=\"GET\"", "verb=\"POST\""));
        let ours_alone = ours.difference(&theirs).filter(|series| !is_of_lists(series));
        difference = ours_alone.map(|series| (series.clone(), "ours alone")).collect();
        difference.extend(theirs.difference(&ours).map(|series| (series.clone(), "theirs alone")));
        difference.is_empty().then_some(())
    });
    assert!(same.is_some(), "{difference:#?}\n{}", both.programs[1].log().join("\n"));
}

/// Row: server 4.1, 4.2, 4.3
#[test]
fn pages_are_the_same() {
    let Some(both) = both(["pages-ours", "pages-theirs"]) else { return };
    let check = both.fill();
    let asked = [
        (10256, "/healthz"),
        (10256, "/livez"),
        (10256, "/nowhere"),
        (10249, "/proxyMode"),
        (10249, "/healthz"),
        (10249, "/healthz?verbose"),
        (10249, "/healthz?verbose&exclude=ping"),
        (10249, "/healthz/ping"),
        (10249, "/livez"),
        (10249, "/"),
        (check, "/"),
        (check, "/anything"),
    ];
    for (port, path) in asked {
        let [ours, theirs] = both.pages(port, path);
        assert_eq!(comparable(ours), comparable(theirs), "{path} on {port}");
    }
    let [ours, theirs] = both.pages(10249, "/metrics");
    assert_eq!(ours.header("content-type"), theirs.header("content-type"));
}

/// Row: server 4.2
#[test]
fn the_configuration_in_effect_is_shown_alike() {
    let Some(both) = both(["configz-ours", "configz-theirs"]) else { return };
    let [mut ours, mut theirs] = both.pages(10249, "/configz").map(|page| page.body);
    for (text, site) in [(&mut ours, &both.ours), (&mut theirs, &both.theirs)] {
        let kubeconfig = site.file("kubeconfig", "");
        *text = text.replace(&*kubeconfig.to_string_lossy(), "FILE").replace(site.name, "NODE");
    }
    assert_eq!(ours, theirs);
}

/// Row: server 4.2
#[test]
fn slis_are_the_same() {
    let Some(both) = both(["slis-ours", "slis-theirs"]) else { return };
    both.pages(10249, "/healthz");
    let slis = both.pages(10249, "/metrics/slis").map(|page| {
        let body: BTreeSet<String> = page
            .body
            .lines()
            .filter(|line| !line.starts_with("# HELP") && !line.starts_with("process_start_time"))
            .map(String::from)
            .collect();
        (page.status, page.headers.iter().find(|(name, _)| name == "content-type").cloned(), body)
    });
    assert_eq!(slis[0], slis[1]);
}
