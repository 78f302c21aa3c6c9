//! An API server that is none, or not the right one, or breaks off in the middle.

use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use ferrule_testkit::Program;
use ferrule_testkit::scripted_server::{Reply, Request, ScriptedServer, usual};
use serde_json::{Value, json};

use crate::stand::{ASKING_POD, BINARY, NODE, PATIENCE, PODS, Stand};
use crate::table::{Seen, Table};

const STAYS: &str = "what is known stays in effect; one line";
const SERVICES: usize = 30;
/// The only Service with an endpoint.
pub const FIRST: &str = "10.96.3.1";
/// A Service without endpoints refuses, which shows that its rules are there.
const LAST: &str = "10.96.3.30";
/// The address of one more.
pub const ADDED: &str = "10.96.3.31";

const WAIT: &str = "a wait for a billion years is asked for, and later nothing is wrong";
/// A minute, a tenth of it more, and a machine that does much else.
const MAX_WAIT: Duration = Duration::from_secs(80);

pub fn attack(table: &mut Table) {
    table.group("API server impostor");
    for (what, reply) in answers() {
        table.attack(what, STAYS, || relisted(reply, "Failed to watch"));
    }
    table.attack(
        "a list without most Services",
        "warned of with counts and version, then obeyed",
        mass_removal,
    );
    table.attack("a password in its address", "in no log line and no metric", password);
}

fn services(count: usize) -> Vec<Value> {
    let service = |nth: usize| {
        json!({ "metadata": { "name": format!("web-{nth}"), "namespace": "shop", "resourceVersion": "5" },
                "spec": { "clusterIP": format!("10.96.3.{}", nth + 1), "ports": [{ "port": 80 }] } })
    };
    (0..count).map(service).collect()
}

fn list(kind: &str, api_version: &str, items: &[Value]) -> Reply {
    Reply::json(
        &json!({ "kind": kind, "apiVersion": api_version, "metadata": { "resourceVersion": "4711" }, "items": items }),
    )
}

fn answers() -> Vec<(&'static str, Reply)> {
    let body = |text: &[u8]| Reply::Answer {
        status: 200,
        headers: vec!["content-type: application/json".into()],
        body: text.to_vec(),
    };
    vec![
        ("a list of Pods for one of Services", list("PodList", "v1", &[])),
        ("a list of another group", list("ServiceList", "serving.knative.dev/v1", &[])),
        ("a connection closed without a word", Reply::Raw(Vec::new())),
        (
            "an answer cut in the middle",
            Reply::Raw(b"HTTP/1.1 200 OK\r\ncontent-length: 9000\r\n\r\n{\"kind\":\"Se".to_vec()),
        ),
        ("another protocol", Reply::Raw(b"SSH-2.0-OpenSSH_9.2\r\n".to_vec())),
        ("a redirect elsewhere", Reply::refusal(302, &["location: http://127.0.0.1:1/elsewhere"])),
        ("a wait for a billion years", endless_wait()),
        ("a web page", body(b"<html>sign in</html>")),
        (
            "JSON nested without end",
            body(
                &[br#"{"kind":"ServiceList","apiVersion":"v1","items":["#.to_vec(), b"[".repeat(300_000)]
                    .concat(),
            ),
        ),
    ]
}

fn endless_wait() -> Reply {
    Reply::refusal(429, &["retry-after: 31557600000000000"])
}

/// Begins beside the other attacks, since it takes a minute.
pub fn begin_wait(table: &Table) -> Option<JoinHandle<Seen>> {
    (table.is_full() && table.is_wanted(WAIT)).then(|| thread::spawn(waited))
}

/// Waits for its end.
pub fn finish_wait(table: &mut Table, attack: Option<JoinHandle<Seen>>) {
    table.group("API server impostor");
    if let Some(attack) = attack {
        table.attack(WAIT, "tried again after a minute", || {
            attack.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
    }
}

fn waited() -> Seen {
    let site = Site::new("");
    let said = site.program.said();
    site.expire(endless_wait());
    site.program.wait_for("Failed to watch", said, PATIENCE).ok_or("no trouble was told")?;
    let since = Instant::now();
    site.add_service();
    while !site.serves(ADDED) {
        if since.elapsed() > MAX_WAIT {
            return Err(format!("not tried again for {MAX_WAIT:?}"));
        }
    }
    Ok(format!("tried again after {} s", since.elapsed().as_secs()))
}

/// A node of which the API server is scripted.
pub struct Site {
    pub stand: Stand,
    pub server: ScriptedServer,
    pub program: Program,
}

impl Site {
    fn new(user_info: &str) -> Self {
        let stand = Stand::new();
        let server = stand.net.node().run(|| ScriptedServer::start(usual_answer));
        let server = server.expect("the node").expect("a scripted server");
        let master = format!("--master=http://{user_info}{}", server.address());
        Self::start(stand, server, &[BINARY, &master])
    }

    /// Starts a command that is the program or leads to it.
    pub fn start(stand: Stand, server: ScriptedServer, command: &[&str]) -> Self {
        let arguments = [
            &command[1..],
            &[
                "--hostname-override",
                "node-a",
                "-v=2",
                "--proxy-mode=nftables",
                "--cluster-cidr=10.244.0.0/16",
            ],
        ]
        .concat();
        let program = Program::start(stand.net.node(), std::path::Path::new(command[0]), &arguments);
        let site = Self { stand, server, program: program.expect("the program") };
        site.until_served();
        site
    }

    fn until_served(&self) {
        let synced = self.program.wait_for("Rules written", 0, PATIENCE);
        assert!(synced.is_some(), "{}", self.program.log().join("\n"));
        crate::stand::until(|| self.serves_last().then_some(()));
    }

    pub fn serves_last(&self) -> bool {
        self.serves(LAST)
    }

    /// A page of the metrics port; one that is refused is an error.
    fn page(&self, page: &str) -> Result<String, String> {
        let url = format!("http://127.0.0.1:10249/{page}");
        let output = self.stand.net.node().feed("curl", &["-sS", "--fail", &url], "");
        let output = output.map_err(|error| format!("/{page}: {}", error.with_sources()))?;
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Whether there is a Service with this address.
    pub fn serves(&self, address: &str) -> bool {
        let seen = self.stand.ask_briefly(ASKING_POD, (address, ferrule_model::Protocol::Tcp, 80));
        matches!(seen, ferrule_testkit::netns::Seen::Refused)
    }
}

/// What a server with all Services answers.
pub fn usual_answer(request: &Request) -> Reply {
    answer(request, usual_list(SERVICES))
}

/// What it answers after one more Service was made: the version that is watched has expired.
fn answer_with_one_more(request: &Request) -> Reply {
    if !request.is_about("services") {
        return usual_answer(request);
    }
    if request.is_watch() && request.target.contains("resourceVersion=4712") {
        return Reply::Watch(Vec::new());
    }
    if request.target.contains("sendInitialEvents=true") {
        return Reply::refusal(422, &[]);
    }
    if request.is_watch() {
        return expired();
    }
    Reply::json(
        &json!({ "kind": "ServiceList", "apiVersion": "v1", "metadata": { "resourceVersion": "4712" },
                         "items": services(SERVICES + 1) }),
    )
}

fn expired() -> Reply {
    let status = json!({ "kind": "Status", "apiVersion": "v1", "code": 410, "reason": "Expired" });
    Reply::Watch(vec![json!({ "type": "ERROR", "object": status })])
}

fn usual_list(count: usize) -> Reply {
    list("ServiceList", "v1", &services(count))
}

/// As usual, but for lists of Services, and watches of them once there was one: those have expired.
fn answer(request: &Request, services: Reply) -> Reply {
    match request {
        request
            if request.is_about("services")
                && request.is_watch()
                && request.target.contains("resourceVersion=4711") =>
        {
            Reply::Watch(Vec::new())
        }
        request if request.is_about("services") && request.is_watch() => expired(),
        request if request.is_about("services") => services,
        request if request.is_about("endpointslices") && !request.is_watch() => {
            list("EndpointSliceList", "discovery.k8s.io/v1", &[endpoint_slice()])
        }
        request if request.is_about("nodes") => node(request),
        request => usual(request, &[], 7),
    }
}

fn endpoint_slice() -> Value {
    json!({ "metadata": { "name": "web-0-1", "namespace": "shop", "resourceVersion": "6",
                          "labels": { "kubernetes.io/service-name": "web-0" } },
            "addressType": "IPv4", "ports": [{ "name": "", "port": 8080, "protocol": "TCP" }],
            "endpoints": [{ "addresses": [PODS[0]] }] })
}

fn node(request: &Request) -> Reply {
    if !request.target.contains("sendInitialEvents=true") {
        return Reply::Watch(Vec::new());
    }
    let node = json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "name": "node-a", "resourceVersion": "3" },
                       "status": { "addresses": [{ "type": "InternalIP", "address": NODE }] } });
    let end = json!({ "kind": "Node", "apiVersion": "v1", "metadata": { "resourceVersion": "7",
                      "annotations": { "k8s.io/initial-events-end": "true" } } });
    Reply::Watch(vec![
        json!({ "type": "ADDED", "object": node }),
        json!({ "type": "BOOKMARK", "object": end }),
    ])
}

fn relisted(reply: Reply, words: &str) -> Seen {
    let site = Site::new("");
    let said = site.program.said();
    site.expire(reply);
    let line = site
        .program
        .wait_for(words, said, PATIENCE)
        .ok_or_else(|| format!("the log does not say \"{words}\""))?;
    if line.len() > 2048 {
        return Err(format!("a line of {} bytes", line.len()));
    }
    if site.server.requests().iter().any(|request| request.target.contains("elsewhere")) {
        return Err("it followed a redirect".into());
    }
    if !(0..3).any(|_| site.serves_last()) {
        return Err("Services are gone".into());
    }
    Ok("served on, told".into())
}

impl Site {
    /// One more Service is there, at [`ADDED`], of which the program learns when it connects again.
    pub fn add_service(&self) {
        self.server.follow(answer_with_one_more);
    }

    /// The version that is watched has expired, and the list that replaces it is this.
    fn expire(&self, reply: Reply) {
        self.server.follow(move |request| {
            if request.is_about("services") && request.is_watch() {
                return expired();
            }
            answer(request, reply.clone())
        });
        self.server.disconnect();
    }
}

fn mass_removal() -> Seen {
    let site = Site::new("");
    let said = site.program.said();
    site.expire(usual_list(5));
    let line = site.program.wait_for("more than half", said, PATIENCE).ok_or("no warning")?;
    if !["removed=25", "known=30", "4711"].iter().all(|part| line.contains(part)) {
        return Err(line);
    }
    crate::stand::until(|| (!site.serves_last()).then_some(()));
    if site.page("metrics")?.contains("ferrule_mass_removals_total{kind=\"Service\"} 1\n") {
        Ok("warned, counted, obeyed".into())
    } else {
        Err("it is not counted".into())
    }
}

fn password() -> Seen {
    let site = Site::new("admin:hunter2@");
    let pages = ["metrics", "flagz", "configz", "statusz"].map(|page| site.page(page));
    let pages = pages.into_iter().collect::<Result<Vec<String>, String>>()?;
    site.expire(Reply::refusal(401, &[]));
    site.program.wait_for("Failed to watch", 0, PATIENCE).ok_or("no trouble was told")?;
    let log = site.program.log();
    match pages.iter().chain(&log).find(|text| text.contains("hunter2")) {
        Some(text) => Err(format!("it shows in: {text}")),
        None => Ok("nowhere".into()),
    }
}
