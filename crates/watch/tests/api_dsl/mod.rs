//! Drives an API server and observes what a source reports.
#![allow(dead_code, reason = "each test program uses a part of this")]
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

mod cut;
mod log;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use ferrule_model::{Change, NodeName, ObjectKind};
use ferrule_testkit::api_server::{ApiServer, User};
use ferrule_testkit::netns::Namespace;
use ferrule_watch::ChangeBatch;
use ferrule_watch::server::{
    ApiAccess, Encoding, EndpointsApi, RequestRate, SecretUrl, ServerConfig, ServerSource, SourceEvent,
    user_agent,
};
use serde_json::{Value, json};

pub use cut::Cable;
pub use log::Log;

/// Far longer than anything takes, backoff included.
const TIMEOUT: Duration = Duration::from_secs(90);

pub const KINDS: [ObjectKind; 4] =
    [ObjectKind::Node, ObjectKind::ServiceCidr, ObjectKind::Service, ObjectKind::EndpointSlice];

/// A source under test and its events.
pub struct Watcher {
    pub source: ServerSource,
    events_rx: Receiver<SourceEvent>,
    pub log: Log,
    pub events: Vec<SourceEvent>,
}

impl Watcher {
    /// A source with kube-proxy's permissions, for a node of this name.
    pub fn new(server: &ApiServer, node: &str) -> Self {
        let access =
            ApiAccess::Kubeconfig { path: server.kubeconfig(User::KubeProxy).unwrap(), master: None };
        Self::with(server.namespace(), access, node)
    }

    /// Like `new`, with an encoding.
    pub fn encoded(server: &ApiServer, node: &str, encoding: Encoding) -> Self {
        let path = server.kubeconfig(User::KubeProxy).unwrap();
        let config = ServerConfig { encoding, ..config(ApiAccess::Kubeconfig { path, master: None }) };
        Self::configured(server.namespace(), &config, node)
    }

    /// Like `new`, with a choice of API and encoding.
    pub fn of_api(server: &ApiServer, endpoints_api: EndpointsApi, encoding: Encoding) -> Self {
        let path = server.kubeconfig(User::KubeProxy).unwrap();
        let config = config(ApiAccess::Kubeconfig { path, master: None });
        let config = ServerConfig { encoding, endpoints_api, ..config };
        Self::configured(server.namespace(), &config, "some-node")
    }

    /// A source with an access of the test's choice.
    pub fn with(namespace: &Namespace, access: ApiAccess, node: &str) -> Self {
        Self::configured(namespace, &config(access), node)
    }

    fn configured(namespace: &Namespace, config: &ServerConfig, node: &str) -> Self {
        let (events_tx, events_rx) = channel();
        let log = Log::default();
        let start = || {
            let sink = move |event| drop(events_tx.send(event));
            log.record(|| ServerSource::start(config, &NodeName::new(node), sink).unwrap())
        };
        Self { source: namespace.run(start).unwrap(), events_rx, log: log.clone(), events: Vec::new() }
    }

    /// Receives events until they satisfy a condition.
    #[track_caller]
    pub fn until(&mut self, what: &str, is_enough: impl Fn(&[SourceEvent]) -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !is_enough(&self.events) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.events_rx.recv_timeout(left) {
                Ok(event) => self.events.push(event),
                Err(why) => panic!("waited for {what}: {why}; received: {:#?}", self.events),
            }
        }
    }

    /// Waits until every kind is in sync.
    #[track_caller]
    pub fn in_sync(&mut self) {
        self.until("all kinds in sync", |events| {
            KINDS.iter().all(|kind| events.contains(&SourceEvent::InSync(*kind)))
        });
    }

    /// Waits until an object was reported that many times.
    #[track_caller]
    pub fn until_reported(&mut self, name: &str, times: usize) {
        self.until(&format!("{name} to be reported {times} times"), |events| {
            changes(events, name).len() >= times
        });
    }

    /// Waits until the watch of a kind fails; returns the message.
    #[track_caller]
    pub fn until_failed(&mut self, kind: ObjectKind) -> String {
        self.until(&format!("a failure of {kind}"), |events| message(events, kind).is_some());
        message(&self.events, kind).unwrap()
    }

    /// Drops the events so far.
    pub fn clear(&mut self) {
        self.events.clear();
    }
}

fn message(events: &[SourceEvent], wanted: ObjectKind) -> Option<String> {
    events.iter().rev().find_map(|event| match event {
        SourceEvent::WatchFailed { kind, message } if *kind == wanted => Some(message.clone()),
        _ => None,
    })
}

pub fn config(access: ApiAccess) -> ServerConfig {
    let rate = RequestRate::Limited { per_second: 5.0, burst: 10 };
    ServerConfig {
        access,
        rate,
        user_agent: user_agent("kube-proxy", "v1.37.1"),
        encoding: Encoding::Protobuf,
        endpoints_api: EndpointsApi::default(),
    }
}

/// A kubeconfig with a user of the test's choice.
pub fn access(server: &ApiServer, name: &str, user: &Value) -> ApiAccess {
    let path = server.folder().join(name);
    let text = ferrule_testkit::api_server::kubeconfig_text(&server.url(), &server.ca_file(), user);
    std::fs::write(&path, text).unwrap();
    ApiAccess::Kubeconfig { path, master: None }
}

/// The same access at another URL.
pub fn through(access: ApiAccess, url: &str) -> ApiAccess {
    match access {
        ApiAccess::Kubeconfig { path, .. } => {
            ApiAccess::Kubeconfig { path, master: Some(SecretUrl::new(url)) }
        }
        other => other,
    }
}

pub fn batches(events: &[SourceEvent]) -> impl Iterator<Item = &ChangeBatch> {
    events.iter().filter_map(|event| match event {
        SourceEvent::Changes(batch) => Some(batch),
        _ => None,
    })
}

/// The history of one object: for each report, whether it exists.
pub fn changes(events: &[SourceEvent], name: &str) -> Vec<bool> {
    let changes = batches(events).flat_map(|batch| &batch.changes);
    changes.map(named).filter(|(reported, _)| reported == name).map(|(_, exists)| exists).collect()
}

/// An object's name, and whether it exists.
pub fn named(change: &Change) -> (String, bool) {
    match change {
        Change::Service(name, service) => (name.to_string(), service.is_some()),
        Change::Slice(name, slice, _) => (name.to_string(), slice.is_some()),
        Change::Endpoints(name, slices, _) => (format!("Endpoints {name}"), !slices.is_empty()),
        Change::ServiceCidr(name, blocks) => (name.clone(), blocks.is_some()),
        Change::Node(node) => ("this node".into(), node.is_some()),
    }
}

/// The history of all objects in a namespace.
pub fn history(events: &[SourceEvent], namespace: &str) -> BTreeMap<String, Vec<bool>> {
    let mut history: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    for (name, exists) in batches(events).flat_map(|batch| &batch.changes).map(named) {
        if name.starts_with(&format!("{namespace}/")) {
            history.entry(name).or_default().push(exists);
        }
    }
    history
}

/// A Kubernetes namespace for a test's own objects.
pub struct Objects<'a> {
    pub server: &'a ApiServer,
    pub namespace: &'static str,
}

impl<'a> Objects<'a> {
    pub fn new(server: &'a ApiServer, namespace: &'static str) -> Self {
        server.create("/api/v1/namespaces", &json!({ "metadata": { "name": namespace } })).unwrap();
        Self { server, namespace }
    }

    pub fn services(&self) -> String {
        format!("/api/v1/namespaces/{}/services", self.namespace)
    }

    pub fn slices(&self) -> String {
        format!("/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices", self.namespace)
    }

    pub fn put_service(&self, name: &str) {
        self.server.create(&self.services(), &service(name)).unwrap();
    }

    pub fn change_service(&self, name: &str) {
        let change = json!({ "spec": { "sessionAffinity": "ClientIP" } });
        self.server.patch(&format!("{}/{name}", self.services()), &change).unwrap();
    }

    pub fn delete_service(&self, name: &str) {
        self.server.delete(&format!("{}/{name}", self.services())).unwrap();
    }

    pub fn endpoints(&self) -> String {
        format!("/api/v1/namespaces/{}/endpoints", self.namespace)
    }

    pub fn put_slice(&self, name: &str, endpoints: usize) {
        self.server.create(&self.slices(), &slice(name, endpoints)).unwrap();
    }
}

pub fn service(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "ports": [{ "port": 80 }] } })
}

pub fn slice(name: &str, endpoints: usize) -> Value {
    let endpoint = |nth: usize| {
        json!({ "addresses": [format!("10.244.{}.{}", nth / 250, 1 + nth % 250)], "conditions": { "ready": true },
                "nodeName": "some-node-with-a-rather-long-name", "zone": "zone-a" })
    };
    json!({
        "metadata": { "name": name, "labels": { "kubernetes.io/service-name": "web" } },
        "addressType": "IPv4", "ports": [{ "name": "", "port": 8080, "protocol": "TCP" }],
        "endpoints": (0..endpoints).map(endpoint).collect::<Vec<_>>(),
    })
}

pub fn node(name: &str) -> Value {
    json!({ "metadata": { "name": name }, "spec": { "podCIDRs": ["10.244.7.0/24"], "podCIDR": "10.244.7.0/24" } })
}

/// Writes a file into the server's folder.
pub fn file(server: &ApiServer, name: &str, text: &str) -> PathBuf {
    let path = server.folder().join(name);
    std::fs::write(&path, text).unwrap();
    path
}
