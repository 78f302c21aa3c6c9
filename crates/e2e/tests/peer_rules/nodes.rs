//! The same node twice, in two namespaces: the real kube-proxy on one, Ferrule on the other.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::{Duration, Instant};

use ferrule_kernel::iptables::{IptablesCommands, Saved, SavedRule, Variant};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::XTables as _;
use ferrule_testkit::Program;
use ferrule_testkit::api_server::{ApiServer, User, program};
use ferrule_testkit::netns::Namespace;
use serde_json::{Value, json};

use crate::BY_PROGRAMS;

const PATIENCE: Duration = Duration::from_mins(1);
/// So often kube-proxy is started.
const STARTS: usize = 4;
const SERVICES: &str = "/api/v1/namespaces/default/services";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
/// Chains in which kube-proxy writes Services in any order.
const UNORDERED: [&str; 4] =
    ["KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS", "KUBE-PROXY-FIREWALL"];

/// The one chain that kube-proxy does not have, with the jump into it: it keeps the network from NodePorts on loopback addresses,
/// which kube-proxy serves to whoever is near enough to send to 127.0.0.1.
const OURS_ALONE: &str = "FERRULE-LOCALNET";

/// The rules of a family, by table and chain.
type Rules = BTreeMap<(String, String), Vec<String>>;

/// Both nodes.
pub struct Pair {
    server: &'static ApiServer,
    name: String,
    theirs: (Namespace, Program),
    ours: (Namespace, Program),
    /// The number of the marker by which both are known to have seen everything before.
    marker: u32,
    is_marked: bool,
}

impl Pair {
    /// A pair of that number, both run with these flags.
    pub fn start(number: u8, flags: &[&str]) -> Self {
        let server = ApiServer::shared();
        let name = format!("peer-{number}");
        let node =
            json!({ "metadata": { "name": name, "labels": { "topology.kubernetes.io/zone": "zone-a" } } });
        create(server, "/api/v1/nodes", &node);
        let addresses = ["192.0.2.10", "fd00::10"].map(|ip| json!({ "type": "InternalIP", "address": ip }));
        let status = json!({ "status": { "addresses": addresses } });
        server.patch(&format!("/api/v1/nodes/{name}/status"), &status).expect("the node's addresses");
        let theirs = namespace(server, "kube-proxy", [172, 31, 81, number * 2 + 1]);
        let mut all = vec![
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
        ];
        all.extend(flags.iter().filter(|flag| **flag != BY_PROGRAMS));
        let kube_proxy = kube_proxy_in_its_zone((server, &name), &theirs, &all);
        let ours = namespace(server, "ferrule", [172, 31, 81, number * 2 + 2]);
        let ferrule =
            run((server, &name), &ours, (Path::new(env!("CARGO_BIN_EXE_ferrule-under-test")), flags));
        Self {
            server,
            name,
            theirs: (theirs, kube_proxy),
            ours: (ours, ferrule),
            marker: u32::from(number) * 1000,
            is_marked: false,
        }
    }

    /// Creates objects, Services before slices.
    pub fn write(&self, objects: &[Value]) {
        for object in objects {
            let path = collection(object);
            let created = create(self.server, path, object);
            if object.get("status").is_some() {
                let name = created["metadata"]["name"].as_str().expect("a name");
                let status = json!({ "status": object["status"] });
                self.server.patch(&format!("{path}/{name}/status"), &status).expect("a status");
            }
        }
    }

    /// Replaces objects that are there.
    pub fn rewrite(&self, objects: &[Value]) {
        for object in objects {
            let path = path(object);
            let replaced = self.server.replace(&path, object).map_err(|error| error.with_sources());
            replaced.expect("an object is replaced");
        }
    }

    /// Waits until both have seen everything and have the same rules; how many, or what differs.
    pub fn settle(&mut self) -> Result<usize, String> {
        let marker = self.mark();
        let give_up = Instant::now() + PATIENCE;
        loop {
            let (theirs, ours) = (rules(&self.theirs.0), rules(&self.ours.0));
            let both_saw = [&theirs, &ours].iter().all(|rules| saw(&rules[0], &marker));
            if both_saw && theirs == ours {
                return Ok(ours.iter().flat_map(BTreeMap::values).map(Vec::len).sum());
            }
            if Instant::now() > give_up {
                let log = self.ours.1.log();
                let end = log.iter().rev().take(5).map(String::as_str).collect::<Vec<_>>().join("\n");
                return Err(format!("{}\nthe end of our log:\n{end}", differences(&theirs, &ours)));
            }
            std::thread::park_timeout(Duration::from_millis(50));
        }
    }

    /// Ferrule in the place of kube-proxy: it finds the rules as it wants them, and writes nothing.
    pub fn hand_over(self, flags: &[&str]) {
        let (namespace, kube_proxy) = self.theirs;
        let before = rules(&namespace);
        kube_proxy.kill().expect("kube-proxy is killed");
        let mut all = flags.to_vec();
        all.push("-v=2");
        let who = (self.server, self.name.as_str());
        let ferrule = run(who, &namespace, (Path::new(env!("CARGO_BIN_EXE_ferrule-under-test")), &all));
        for family in ["IPv4", "IPv6"] {
            let line = ferrule.wait_for(&format!("family=\"{family}\" written="), 0, PATIENCE);
            let line = line.expect("a first sync");
            assert!(line.contains("written=0") && line.contains("up-to-date"), "{line}");
        }
        assert_eq!(rules(&namespace), before);
    }

    /// A Service with an endpoint, written after everything else; its name is in the rules once it was seen.
    fn mark(&mut self) -> String {
        let old = format!("marker-{}", self.marker);
        self.marker += 1;
        let name = format!("marker-{}", self.marker);
        let objects = |name: &str| {
            [
                json!({ "metadata": { "name": name }, "kind": "Service",
                        "spec": { "ports": [{ "port": 7 }], "clusterIP": format!("10.99.{}.{}", self.marker / 1000, self.marker % 200 + 1) } }),
                json!({ "metadata": { "name": name, "labels": { "kubernetes.io/service-name": name } },
                        "kind": "EndpointSlice", "addressType": "IPv4", "ports": [{ "name": "", "port": 7 }],
                        "endpoints": [{ "addresses": ["10.244.9.9"], "conditions": { "ready": true } }] }),
            ]
        };
        if self.is_marked {
            delete(&objects(&old));
        }
        self.write(&objects(&name));
        self.is_marked = true;
        format!("{name} -> 10.244.9.9:7")
    }
}

/// kube-proxy may start without its Node's zone, and then ignores hints for good: another start makes it good.
fn kube_proxy_in_its_zone((server, name): (&ApiServer, &str), node: &Namespace, flags: &[&str]) -> Program {
    let hinted = |(address, zone): (&str, &str)| json!({ "addresses": [address], "conditions": { "ready": true }, "hints": { "forZones": [{ "name": zone }] } });
    let endpoints = [("10.244.9.1", "zone-a"), ("10.244.9.2", "zone-b")].map(hinted);
    let objects = [
        json!({ "metadata": { "name": "zone" }, "kind": "Service", "spec": { "ports": [{ "port": 7 }], "clusterIP": "10.99.255.1" } }),
        json!({ "metadata": { "name": "zone", "labels": { "kubernetes.io/service-name": "zone" } },
                "kind": "EndpointSlice", "addressType": "IPv4", "ports": [{ "name": "", "port": 7 }], "endpoints": endpoints }),
    ];
    for object in &objects {
        create(server, collection(object), object);
    }
    let in_its_zone = (0..STARTS).find_map(|_| {
        let kube_proxy = run((server, name), node, (&program("kube-proxy"), flags));
        let give_up = Instant::now() + PATIENCE;
        while !saw(&rules(node)[0], "zone -> 10.244.9.1:7") && Instant::now() < give_up {
            std::thread::park_timeout(Duration::from_millis(50));
        }
        (!saw(&rules(node)[0], "zone -> 10.244.9.2:7")).then_some(kube_proxy)
    });
    delete(&objects);
    in_its_zone.expect("kube-proxy starts and knows its Node's zone")
}

/// Deletes objects.
pub fn delete(objects: &[Value]) {
    for object in objects {
        ApiServer::shared().delete(&path(object)).expect("an object is deleted");
    }
}

fn namespace(server: &ApiServer, name: &str, address: [u8; 4]) -> Namespace {
    let namespace = Namespace::new(name).expect("a namespace");
    server.join(&namespace, address.into()).expect("a way to the API server");
    let commands = "address add 192.0.2.10/32 dev lo\naddress add fd00::10/128 dev lo nodad\n";
    namespace.feed("ip", &["-batch", "-"], commands).expect("the node's addresses");
    namespace
}

fn run(
    (server, name): (&ApiServer, &str),
    namespace: &Namespace,
    (program, more): (&Path, &[&str]),
) -> Program {
    let kubeconfig = server.kubeconfig(User::KubeProxy).expect("a kubeconfig");
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let name = format!("--hostname-override={name}");
    let mut arguments =
        vec![kubeconfig.as_str(), name.as_str(), "--proxy-mode=iptables", "--iptables-min-sync-period=50ms"];
    arguments.extend(more);
    Program::start(namespace, program, &arguments).expect("it starts")
}

fn create(server: &ApiServer, path: &str, object: &Value) -> Value {
    server.create(path, object).map_err(|error| error.with_sources()).expect("an object")
}

fn collection(object: &Value) -> &'static str {
    if object["kind"] == "Service" { SERVICES } else { SLICES }
}

fn path(object: &Value) -> String {
    format!("{}/{}", collection(object), object["metadata"]["name"].as_str().expect("a name"))
}

/// Both families' rules.
fn rules(namespace: &Namespace) -> [Rules; 2] {
    [Family::Ip, Family::Ip6].map(|family| {
        let saved =
            namespace.run(|| IptablesCommands::new(family, Variant::Default).save()).expect("the namespace");
        by_chain(&saved.expect("iptables-save"))
    })
}

fn by_chain(saved: &Saved) -> Rules {
    let mut rules = Rules::new();
    for table in &saved.tables {
        for chain in table.chains.iter().filter(|chain| chain.name.as_str() != OURS_ALONE) {
            rules.entry((table.name.clone(), chain.name.to_string())).or_default();
        }
        let shared =
            |rule: &&SavedRule| rule.chain.as_str() != OURS_ALONE && !rule.text.ends_with(OURS_ALONE);
        for rule in table.rules.iter().filter(shared) {
            let chain = (table.name.clone(), rule.chain.to_string());
            rules.entry(chain).or_default().push(rule.text.to_string());
        }
    }
    for ((_, chain), rules) in &mut rules {
        if UNORDERED.contains(&chain.as_str()) {
            // Those that must come last are written in any order too; that they do is looked at apart.
            let is_last = |rule: &String| rule.contains("must be the last rule");
            let last = rules.iter().rev().take_while(|rule| is_last(rule)).count();
            rules.sort_unstable();
            rules.push(format!("{last} last"));
        }
    }
    rules
}

fn saw(rules: &Rules, marker: &str) -> bool {
    rules.values().flatten().any(|rule| rule.contains(marker))
}

fn differences(theirs: &[Rules; 2], ours: &[Rules; 2]) -> String {
    let lines = |rules: &[Rules; 2]| -> BTreeSet<String> {
        let each = rules.iter().zip(["IPv4", "IPv6"]).flat_map(|(rules, family)| {
            rules.iter().flat_map(move |((table, chain), rules)| {
                let numbered = rules.iter().enumerate();
                let rules = numbered.map(move |(at, rule)| format!("{family} {table} {chain} {at}: {rule}"));
                rules.chain([format!("{family} {table} {chain}")])
            })
        });
        each.collect()
    };
    let (theirs, ours) = (lines(theirs), lines(ours));
    let only = |these: &BTreeSet<String>, those: &BTreeSet<String>, sign: &str| {
        these.difference(those).map(|line| format!("{sign} {line}\n")).collect::<Vec<_>>().concat()
    };
    only(&theirs, &ours, "kube-proxy:") + &only(&ours, &theirs, "ferrule:   ")
}
