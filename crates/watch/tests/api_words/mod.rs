//! The words in which tests tell an API server something and say what a source must make of it.
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
use ferrule_watch::server::{
    ApiAccess, Batch, Encoding, RequestRate, SecretUrl, ServerConfig, ServerSource, SourceEvent, user_agent,
};
use serde_json::{Value, json};

pub use cut::Cable;
pub use log::Log;

/// Far longer than anything takes, backing off included.
const PATIENCE: Duration = Duration::from_secs(90);

pub const KINDS: [ObjectKind; 4] =
    [ObjectKind::Node, ObjectKind::ServiceCidr, ObjectKind::Service, ObjectKind::EndpointSlice];

/// A source under test and what it said.
pub struct Watcher {
    pub source: ServerSource,
    heard: Receiver<SourceEvent>,
    pub log: Log,
    pub events: Vec<SourceEvent>,
}

impl Watcher {
    /// A source with kube-proxy's own rights, for a node of this name.
    pub fn new(server: &ApiServer, node: &str) -> Self {
        let access =
            ApiAccess::Kubeconfig { path: server.kubeconfig(User::KubeProxy).unwrap(), master: None };
        Self::with(server.namespace(), access, node)
    }

    /// The same, in an encoding.
    pub fn encoded(server: &ApiServer, node: &str, encoding: Encoding) -> Self {
        let path = server.kubeconfig(User::KubeProxy).unwrap();
        let config = ServerConfig { encoding, ..config(ApiAccess::Kubeconfig { path, master: None }) };
        Self::configured(server.namespace(), &config, node)
    }

    /// A source of which nothing is usual.
    pub fn with(namespace: &Namespace, access: ApiAccess, node: &str) -> Self {
        Self::configured(namespace, &config(access), node)
    }

    fn configured(namespace: &Namespace, config: &ServerConfig, node: &str) -> Self {
        let (tell, heard) = channel();
        let log = Log::default();
        let start = || {
            let sink = move |event| drop(tell.send(event));
            log.record(|| ServerSource::start(config, &NodeName::new(node), sink).unwrap())
        };
        Self { source: namespace.run(start).unwrap(), heard, log: log.clone(), events: Vec::new() }
    }

    /// Listens until what was heard is enough.
    #[track_caller]
    pub fn until(&mut self, what: &str, enough: impl Fn(&[SourceEvent]) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !enough(&self.events) {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.heard.recv_timeout(left) {
                Ok(event) => self.events.push(event),
                Err(why) => panic!("waited for {what}: {why}; heard: {:#?}", self.events),
            }
        }
    }

    /// Listens until everything there is was told.
    #[track_caller]
    pub fn in_sync(&mut self) {
        self.until("all kinds in sync", |events| {
            KINDS.iter().all(|kind| events.contains(&SourceEvent::InSync(*kind)))
        });
    }

    /// Listens until an object was told that many times.
    #[track_caller]
    pub fn told(&mut self, name: &str, times: usize) {
        self.until(&format!("{name} to be told {times} times"), |events| {
            changes(events, name).len() >= times
        });
    }

    /// Listens until a kind is in trouble, and forgets what was before. Returns the message.
    #[track_caller]
    pub fn trouble(&mut self, kind: ObjectKind) -> String {
        self.until(&format!("trouble with {kind}"), |events| message(events, kind).is_some());
        message(&self.events, kind).unwrap()
    }

    /// Forgets what was heard until now.
    pub fn forget(&mut self) {
        self.events.clear();
    }
}

fn message(events: &[SourceEvent], wanted: ObjectKind) -> Option<String> {
    events.iter().rev().find_map(|event| match event {
        SourceEvent::Trouble { kind, message } if *kind == wanted => Some(message.clone()),
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
    }
}

/// Access by a kubeconfig that a test writes itself.
pub fn access(server: &ApiServer, name: &str, user: &Value) -> ApiAccess {
    let path = server.folder().join(name);
    let text = ferrule_testkit::api_server::kubeconfig_text(&server.url(), &server.ca_file(), user);
    std::fs::write(&path, text).unwrap();
    ApiAccess::Kubeconfig { path, master: None }
}

/// The same access by another address.
pub fn through(access: ApiAccess, url: &str) -> ApiAccess {
    match access {
        ApiAccess::Kubeconfig { path, .. } => {
            ApiAccess::Kubeconfig { path, master: Some(SecretUrl::new(url)) }
        }
        other => other,
    }
}

pub fn batches(events: &[SourceEvent]) -> impl Iterator<Item = &Batch> {
    events.iter().filter_map(|event| match event {
        SourceEvent::Changes(batch) => Some(batch),
        _ => None,
    })
}

/// What was said of one object, in order: whether it is there.
pub fn changes(events: &[SourceEvent], name: &str) -> Vec<bool> {
    let changes = batches(events).flat_map(|batch| &batch.changes);
    changes.map(named).filter(|(told, _)| told == name).map(|(_, there)| there).collect()
}

/// An object's name and whether it is there.
pub fn named(change: &Change) -> (String, bool) {
    match change {
        Change::Service(name, service) => (name.to_string(), service.is_some()),
        Change::Slice(name, slice, _) => (name.to_string(), slice.is_some()),
        Change::ServiceCidr(name, blocks) => (name.clone(), blocks.is_some()),
        Change::Node(node) => ("this node".into(), node.is_some()),
    }
}

/// All that was said of a test's own objects, by name.
pub fn history(events: &[SourceEvent], namespace: &str) -> BTreeMap<String, Vec<bool>> {
    let mut history: BTreeMap<String, Vec<bool>> = BTreeMap::new();
    for (name, there) in batches(events).flat_map(|batch| &batch.changes).map(named) {
        if name.starts_with(&format!("{namespace}/")) {
            history.entry(name).or_default().push(there);
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

/// A file of a test's own.
pub fn file(server: &ApiServer, name: &str, text: &str) -> PathBuf {
    let path = server.folder().join(name);
    std::fs::write(&path, text).unwrap();
    path
}
