//! The command line of commands that ask, and what their text looks like.

use super::options::{Format, Given, help};
use super::table::{Style, Table};
use super::{COMMANDS, Command, explanation, text};
use crate::questions::{
    Affinity, AskedPacket, Delivered, DiffAnswer, Explanation, FamilyDiff, KernelDetail, KernelVerdict,
    PacketVerdict, PoolMember,
};

const PLAIN: Style = Style { is_wide: false, is_colored: false };

fn parsed(command: Command, line: &str) -> Result<Given, String> {
    let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
    Given::parse(command, &arguments).map_err(|error| error.to_string())
}

fn query(line: &str) -> Result<String, String> {
    let given = parsed(Command::Explain, line)?;
    given.packet().map(|parameters| parameters.encoded()).map_err(|error| error.to_string())
}

#[test]
fn a_packet_has_one_source_and_one_destination() {
    assert_eq!(
        query("10.0.0.1 10.96.0.1:80").expect("a packet"),
        "origin=address&to=10.96.0.1%3A80&from=10.0.0.1"
    );
    assert_eq!(query("--from-node shop/web").expect("a packet"), "origin=node&to=shop%2Fweb");
    assert_eq!(
        query("--from-pod 10.0.0.1 shop/web").expect("a packet"),
        "origin=pod&to=shop%2Fweb&from=10.0.0.1"
    );
    assert_eq!(query("--from-pod=10.0.0.1 a/b").expect("a packet"), "origin=pod&to=a%2Fb&from=10.0.0.1");
    assert_eq!(
        query("--from-outside 9.9.9.9 a/b").expect("a packet"),
        "origin=outside&to=a%2Fb&from=9.9.9.9"
    );
    for wrong in [
        "",
        "10.0.0.1",
        "1 2 3",
        "--from-node 1 2",
        "--from-pod 1 --from-node 2",
        "--from-pod",
        "--from-pod a/b c/d",
    ] {
        assert!(query(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn formats_and_flags_are_read() {
    let format = |line: &str| parsed(Command::Plan, line).map(|given| given.format);
    for (line, wanted) in [
        ("", Format::Text),
        ("-o json", Format::Json),
        ("-ojson", Format::Json),
        ("-o=yaml", Format::Yaml),
        ("--json", Format::Json),
        ("--yaml", Format::Yaml),
        ("--output=wide", Format::Wide),
    ] {
        assert_eq!(format(line), Ok(wanted), "{line}");
    }
    for wrong in ["-o xml", "-o", "--json --yaml", "-x", "--nonsense", "extra", "--json=1"] {
        assert!(format(wrong).is_err(), "{wrong}");
    }
    let guess = parsed(Command::Plan, "--namspace x").expect_err("a misspelt option");
    assert!(guess.contains("did you mean --namespace?"), "{guess}");
}

#[test]
fn flags_of_the_proxy_go_with_a_folder_alone() {
    let given = parsed(
        Command::Plan,
        "--manifests d --proxy-mode iptables --masquerade-all --cluster-cidr=10.0.0.0/8",
    );
    let wanted = ["--proxy-mode=iptables", "--masquerade-all=true", "--cluster-cidr=10.0.0.0/8"];
    assert_eq!(given.expect("flags").proxy_flags, wanted);
    assert!(parsed(Command::Plan, "--proxy-mode iptables").is_err());
    assert!(parsed(Command::Status, "--proxy-mode iptables").is_err());
    assert!(parsed(Command::Explain, "--kernel 1 2").is_err());
}

#[test]
fn help_has_every_option_and_the_exit_status() {
    for command in COMMANDS {
        let text = help("ferrule", command);
        for word in command.words() {
            assert!(text.contains(word.trim_end_matches('=')), "{word}");
        }
        assert!(text.contains("Exit status: 0 ") && text.contains("Examples:\n  ferrule "), "{text}");
    }
}

#[test]
fn tables_are_aligned_and_hostile_names_are_text() {
    let mut table = Table::new(&["A", "B"]);
    table.row(["long one", "x"]);
    table.row(["\u{1b}[31m", "\u{202e}y"]);
    assert_eq!(table.text(""), "A         B\nlong one  x\n\\x1b[31m  \\u202ey\n");
}

fn explanation_of_a_packet() -> Explanation {
    Explanation {
        node: "a".into(),
        mode: "nftables".into(),
        packet: AskedPacket {
            from: "10.0.0.9".into(),
            interface: None,
            to: "10.96.0.1".into(),
            protocol: Some("tcp".into()),
            port: Some(80),
        },
        verdict: PacketVerdict::Forward,
        service: Some("shop/web:http".into()),
        frontend: Some("10.96.0.1:80/tcp".into()),
        endpoints: vec!["10.0.0.1:8080".into()],
        masquerade: true,
        deliveries: vec![Delivered { endpoint: "10.0.0.1:8080".into(), masquerade: true }],
        affinity: Some(Affinity { seconds: 60 }),
        rule: "anyone".into(),
        reasons: vec!["one".into(), "\u{1b}]0;two".into()],
        also_claimed_by: Vec::new(),
        pool: vec![PoolMember {
            endpoint: "10.0.0.1:8080".into(),
            used: true,
            why: "used: ready".into(),
            local: true,
            conditions: "ready".into(),
        }],
        pending_changes: false,
        kernel: KernelVerdict::Missing,
        kernel_detail: KernelDetail {
            holds: vec!["services 1".into()],
            differences: vec!["missing: endpoints 2".into()],
            others: vec!["table inet filter, chain forward".into()],
            problem: None,
        },
    }
}

#[test]
fn an_explanation_says_the_verdict_first_and_names_what_is_missing() {
    let text = explanation::text(&explanation_of_a_packet(), PLAIN);
    let wanted = "forward  10.0.0.9 -> 10.96.0.1:80/tcp
node        a, nftables mode
service     shop/web:http
frontend    10.96.0.1:80/tcp
rule        anyone
goes to     10.0.0.1:8080 (masqueraded)
affinity    a client keeps its endpoint for 60s
why         one
            \\x1b]0;two

ENDPOINT       USED  WHY
10.0.0.1:8080  yes   ready

kernel      missing: it does not hold all that was planned
  missing: endpoints 2
  services 1

others      rules of other programs on the way, which may stop the packet
  table inet filter, chain forward
";
    assert_eq!(text, wanted);
}

#[test]
fn the_names_of_fields_are_those_that_are_documented() {
    let json = serde_json::to_value(explanation_of_a_packet()).expect("JSON");
    for (field, wanted) in [
        ("verdict", serde_json::json!("forward")),
        ("service", serde_json::json!("shop/web:http")),
        ("endpoints", serde_json::json!(["10.0.0.1:8080"])),
        ("masquerade", serde_json::json!(true)),
        ("affinity", serde_json::json!({ "seconds": 60 })),
        ("kernel", serde_json::json!("missing")),
    ] {
        assert_eq!(json[field], wanted, "{field}");
    }
    let documented = include_str!("../../../../../docs/inspecting.md");
    for name in json.as_object().expect("an object").keys() {
        assert!(documented.contains(&format!("`{name}`")), "{name} is not in docs/inspecting.md");
    }
}

#[test]
fn differences_are_lines_and_colour_is_for_terminals() {
    let lines = vec!["ip add element".to_owned(), "ip delete element".to_owned()];
    let diff = FamilyDiff { lines, error: Some("no".into()) };
    let answer = DiffAnswer {
        node: "a".into(),
        mode: "nftables".into(),
        with: "cluster".into(),
        families: [("IPv4".to_owned(), diff)].into(),
    };
    assert_eq!(text::diff(&answer, PLAIN), "IPv4: no\nip add element\nip delete element\n");
    let colored = text::diff(&answer, Style { is_colored: true, ..PLAIN });
    assert!(
        colored.contains("\x1b[32mip add element\x1b[0m") && colored.contains("\x1b[31mip delete"),
        "{colored}"
    );
}

#[test]
fn flags_of_the_proxy_count_where_no_proxy_is_asked() {
    let read = |line: &str| parsed(Command::Plan, line).map(|given| given.names_a_cluster());
    assert_eq!(read("--manifests d --proxy-mode iptables"), Ok(false));
    assert_eq!(read("--kubeconfig k --proxy-mode iptables"), Ok(true));
    assert_eq!(read("--config=c"), Ok(true));
    let refused = read("--proxy-mode iptables").expect_err("a proxy is asked");
    assert!(
        refused.contains("--proxy-mode=iptables only counts with --manifests or --kubeconfig"),
        "{refused}"
    );
    let explain = |line: &str| parsed(Command::Explain, line).map(|given| given.has("kernel"));
    assert_eq!(explain("10.0.0.1 a/b --kubeconfig k --kernel"), Ok(true));
    assert!(explain("10.0.0.1 a/b --kernel").is_err());
}
