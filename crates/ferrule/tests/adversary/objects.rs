//! A tenant, or a careless operator, writes objects that no API server would take.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use ferrule_testkit::netns::Seen as Packet;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::stand::{CLIENT, NODE};
use crate::table::{Seen, Table};
use crate::victim::Victim;

const TOLD: &str = "serves on; one short line names it";
const REFUSED: &str = "the address is refused, outsiders reach nothing";

pub fn attack(table: &mut Table) {
    table.group("tenant");
    for mode in ["nftables", "iptables"] {
        let victim = Victim::new(&[&format!("--proxy-mode={mode}")]);
        for (what, manifest, words) in manifests() {
            table.attack(format!("{mode}: {what}"), TOLD, || put(&victim, &manifest, words));
        }
        table.attack(format!("{mode}: an endpoint on the node's loopback"), REFUSED, || loopback(&victim));
    }
    table.group("careless operator");
    let victim = Victim::new(&[]);
    for (what, make, line) in FILES {
        let expected = match line {
            Line::NamesIt => "serves on; a line names the file",
            Line::None => "serves on; it is passed over",
        };
        table.attack(*what, expected, || {
            let path = victim.stand.folder().join("odd.yaml");
            let said = victim.program.said();
            make(&path);
            let seen = match line {
                Line::NamesIt => victim.is_well_and_said(said, "odd.yaml"),
                Line::None => victim.is_well(),
            };
            remove(&path);
            seen
        });
    }
}

fn put(victim: &Victim, manifest: &str, words: &str) -> Seen {
    let said = victim.program.said();
    victim.stand.write("evil.yaml", manifest);
    let seen = victim.is_well_and_said(said, words);
    victim.stand.remove("evil.yaml");
    let log = victim.program.log();
    let is_raw = |line: &String| line.chars().any(|character| character.is_control() && character != '\t');
    match log.iter().skip(said).find(|line| is_raw(line)) {
        Some(line) => Err(format!("raw control characters in the log: {line:?}")),
        None => seen,
    }
}

/// Something that listens on loopback only must not be reached through a Service.
fn loopback(victim: &Victim) -> Seen {
    let said = victim.program.said();
    victim
        .stand
        .write("evil.yaml", &(service("evil", "10.96.0.66", 30066) + "---\n" + &slice("evil", "127.0.0.1")));
    let seen = victim.is_well_and_said(said, "may not be used here");
    let outside = victim.stand.ask_briefly(CLIENT, (NODE, ferrule_model::Protocol::Tcp, 30066));
    victim.stand.remove("evil.yaml");
    match outside {
        Packet::Answered { .. } => Err("an outsider reached the node's loopback".into()),
        _ => seen,
    }
}

fn service(name: &str, ip: &str, node_port: u16) -> String {
    format!(
        "apiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: default}}\nspec: {{clusterIP: {ip}, type: NodePort, \
         ports: [{{port: 80, nodePort: {node_port}}}]}}\n"
    )
}

fn slice(service: &str, ip: &str) -> String {
    format!(
        "apiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {{name: {service}-1, namespace: default, labels: \
         {{kubernetes.io/service-name: {service}}}}}\naddressType: IPv4\nports: [{{name: '', port: 10249}}]\n\
         endpoints: [{{addresses: [{ip}]}}]\n"
    )
}

/// What is written, and words that the log must then have.
fn manifests() -> Vec<(&'static str, String, &'static str)> {
    let named = |name: &str| {
        format!(
            "{{\"apiVersion\": \"v1\", \"kind\": \"Service\", \"metadata\": {{\"name\": {}, \"namespace\": \"default\"}}, \
             \"spec\": {{\"clusterIP\": \"10.96.0.77\", \"ports\": [{{\"port\": 80}}]}}}}",
            serde_json::Value::from(name)
        )
    };
    let with = |field: &str| {
        format!(
            "apiVersion: v1\nkind: Service\nmetadata: {{name: evil, namespace: default}}\nspec: {{clusterIP: 10.96.0.77, {field}}}\n"
        )
    };
    let mut nested = String::from("kind: Service\nspec: ");
    nested.push_str(&"[".repeat(100_000));
    let mut laughs = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let _ = write!(laughs, "a{level}: &a{level} [");
        let _ = (0..10).try_for_each(|_| write!(laughs, "*a{}, ", level - 1));
        laughs.push_str("x]\n");
    }
    laughs.push_str("kind: Service\n");
    vec![
        ("a name that would be a rule", named("x\" -j ACCEPT; drop"), "is not a usable name"),
        ("a name with escapes and bidi marks", named("\u{1b}[2Jevil\r\u{202e}live"), "is not a usable name"),
        ("a kind of 1.5 MB", format!("kind: {}\n", "K".repeat(1_500_000)), "is not used by a proxy"),
        ("lists in lists in lists", nested, "evil.yaml"),
        ("a billion laughs", laughs, "evil.yaml"),
        ("bytes that are no text", "kind: Service\0\u{1}".to_owned(), "evil.yaml"),
        ("a port that is none", with("ports: [{port: -1}]"), "is not a port"),
        (
            "a loopback external IP",
            with("externalIPs: [127.0.0.1], ports: [{port: 80}]"),
            "may not be used here",
        ),
        (
            "a multicast cluster IP",
            with("ports: [{port: 80}]").replace("10.96.0.77", "224.0.0.1"),
            "may not be used here",
        ),
    ]
}

type Make = fn(&std::path::Path);

/// What the log says of a file.
enum Line {
    NamesIt,
    None,
}

const FILES: &[(&str, Make, Line)] = &[
    (
        "a named pipe among the manifests",
        |path| {
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        },
        Line::None,
    ),
    ("a link to itself", |path| symlink("odd.yaml", path).expect("a link"), Line::NamesIt),
    ("a link to a device without end", |path| symlink("/dev/zero", path).expect("a link"), Line::None),
    ("a folder named as a manifest", |path| fs::create_dir(path).expect("a folder"), Line::None),
    (
        "a file of a terabyte, all holes",
        |path| {
            fs::File::create(path).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
        },
        Line::NamesIt,
    ),
    ("a file that is not UTF-8", |path| fs::write(path, b"\xff\xfe").expect("a file"), Line::NamesIt),
    // Root without capabilities that override permissions is refused, too.
    (
        "a file that nobody may read",
        |path| {
            fs::write(path, "kind: Service\n").expect("a file");
            fs::set_permissions(path, fs::Permissions::from_mode(0o000)).expect("other permissions");
        },
        Line::NamesIt,
    ),
];

fn remove(path: &std::path::Path) {
    if path.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        fs::remove_dir(path).expect("the folder goes");
    } else {
        fs::remove_file(path).expect("the file goes");
    }
}
