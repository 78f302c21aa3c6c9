//! Validation row by row, and what valid configurations come to.

use std::time::Duration;

use ferrule_plan::ProxyMode;
use ipnet::IpNet;

use super::*;
use crate::cli::parse;
use crate::config::complete;
use crate::config::complete::complete_with_file;

const HEADER: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

fn resolve(body: &str) -> Result<Settings, Problems> {
    let line = parse(&["--config=file"]).expect("good flags");
    let completed = complete_with_file(&line, format!("{HEADER}{body}").as_bytes()).expect("decodes");
    Settings::resolve(&completed, &FlagOnly::default())
}

fn resolve_flags(flags: &[&str]) -> Result<Settings, Problems> {
    let line = parse(flags).expect("good flags");
    let completed = complete(&line, |_| panic!("no file is asked for")).expect("completes");
    Settings::resolve(&completed, &FlagOnly::default())
}

/// The complaints as `path: kind: value`, which is the part that tools and people compare with kube-proxy's.
fn complaints(result: Result<Settings, Problems>) -> Vec<String> {
    let problems = match result {
        Ok(_) => return Vec::new(),
        Err(problems) => problems.0,
    };
    problems
        .iter()
        .map(|problem| {
            let complaint =
                problem.complaint.rsplit_once(": ").map_or(problem.complaint.as_str(), |(head, _)| head);
            format!("{}: {complaint}", problem.path.trim_start_matches("KubeProxyConfiguration."))
        })
        .collect()
}

fn check(body: &str, expected: &[&str]) {
    assert_eq!(complaints(resolve(body)), expected, "{body}");
}

/// Row: server 8.2 #1
#[test]
fn valid_configurations_pass() {
    for body in [
        "",
        "mode: \"\"\n",
        "mode: ipvs\n",
        "healthzBindAddress: \"\"\n",
        "bindAddress: fd00::1\nhealthzBindAddress: \"[fd00::1]:1\"\nmetricsBindAddress: \"[fd00::1]:2\"\nclusterCIDR: fd00:1::/64\n",
        "bindAddress: 1.2.3.4\nclusterCIDR: fd00:1::/64\n",
        "clusterCIDR: 10.0.0.0/8,fd00:1::/64\n",
    ] {
        check(body, &[]);
    }
    // Only a flag can switch health checks off.
    let off = resolve_flags(&["--healthz-port=0"]).expect("valid");
    assert_eq!(off.healthz, Healthz::Off);
}

/// Row: server 8.2 #2
#[test]
fn a_bind_address_has_no_port() {
    check("bindAddress: 10.10.12.11:2000\n", &["BindAddress: Invalid value: \"10.10.12.11:2000\""]);
}

/// Row: server 8.2 #3
#[test]
fn listening_addresses_need_a_port() {
    let flags = ["--write-config-to=x", "--healthz-bind-address=0.0.0.0"];
    assert_eq!(complaints(resolve_flags(&flags)), ["HealthzBindAddress: Invalid value: \"0.0.0.0\""]);
    let flags = ["--write-config-to=x", "--metrics-bind-address=127.0.0.1"];
    assert_eq!(complaints(resolve_flags(&flags)), ["MetricsBindAddress: Invalid value: \"127.0.0.1\""]);
}

/// Row: server 8.2 #4
#[test]
fn a_bad_host_is_shown_without_its_port() {
    check(
        "healthzBindAddress: 123.456.789.10:12345\nmetricsBindAddress: 123.456.789.10:12345\n",
        &[
            "HealthzBindAddress: Invalid value: \"123.456.789.10\"",
            "MetricsBindAddress: Invalid value: \"123.456.789.10\"",
        ],
    );
}

/// Row: server 8.2 #5
#[test]
fn a_bad_port_is_shown_without_its_host() {
    for port in ["foo", "0", "65536"] {
        check(
            &format!("healthzBindAddress: 10.10.10.10:{port}\n"),
            &[&format!("HealthzBindAddress: Invalid value: \"{port}\"")],
        );
    }
}

/// Row: server 8.2 #6
#[test]
fn the_config_sync_period_is_positive() {
    check("configSyncPeriod: -1s\n", &["ConfigSyncPeriod: Invalid value: \"-1s\""]);
}

/// Row: server 8.2 #7
#[test]
fn a_negative_sync_period_is_also_below_the_shortest() {
    check(
        "iptables: {syncPeriod: -5s, minSyncPeriod: 2s}\n",
        &["SyncPeriod: Invalid value: \"-5s\"", "SyncPeriod: Invalid value: \"2s\""],
    );
}

/// Row: server 8.2 #8
#[test]
fn the_shortest_sync_period_is_not_negative() {
    check("iptables: {minSyncPeriod: -2s}\n", &["MinSyncPeriod: Invalid value: \"-2s\""]);
}

/// Row: server 8.2 #9
#[test]
fn the_shortest_sync_period_is_not_above_the_normal_one() {
    check("iptables: {syncPeriod: 1s, minSyncPeriod: 5s}\n", &["SyncPeriod: Invalid value: \"5s\""]);
}

/// Row: server 8.2 #10
#[test]
fn masquerade_bits_are_bits_of_32() {
    for bit in ["-10", "32"] {
        let expected = format!("KubeProxyIPTablesConfiguration.MasqueradeBit: Invalid value: {bit}");
        check(&format!("iptables: {{masqueradeBit: {bit}}}\nmode: nftables\n"), &[&expected]);
        let expected = format!("KubeProxyNFTablesConfiguration.MasqueradeBit: Invalid value: {bit}");
        check(&format!("nftables: {{masqueradeBit: {bit}}}\nmode: nftables\n"), &[&expected]);
        check(&format!("nftables: {{masqueradeBit: {bit}}}\nmode: iptables\n"), &[]);
    }
    assert_eq!(resolve("iptables: {masqueradeBit: 31}\n").expect("valid").masquerade.mark, 0x8000_0000);
}

/// Row: server 8.2 #11
#[test]
fn ipvs_timeouts_are_not_negative_in_ipvs_mode() {
    let timeouts = "ipvs: {tcpTimeout: -1s, tcpFinTimeout: -1s, udpTimeout: -1s}\n";
    check(
        &format!("mode: ipvs\n{timeouts}"),
        &[
            "KubeProxyIPVSConfiguration.TCPTimeout: Invalid value: \"-1s\"",
            "KubeProxyIPVSConfiguration.TCPFinTimeout: Invalid value: \"-1s\"",
            "KubeProxyIPVSConfiguration.UDPTimeout: Invalid value: \"-1s\"",
        ],
    );
    check(timeouts, &[]);
    check("mode: ipvs\nipvs: {tcpTimeout: 0s, tcpFinTimeout: 0s, udpTimeout: 0s}\n", &[]);
}

/// Row: server 8.2 #12
#[test]
fn conntrack_values_are_not_negative() {
    let group = "KubeProxyLinuxConfiguration.KubeProxyConntrackConfiguration";
    for (field, name, value) in [
        ("maxPerCore", "MaxPerCore", "-1"),
        ("min", "Min", "-1"),
        ("tcpEstablishedTimeout", "TCPEstablishedTimeout", "-5s"),
        ("tcpCloseWaitTimeout", "TCPCloseWaitTimeout", "-5s"),
        ("udpTimeout", "UDPTimeout", "-5s"),
        ("udpStreamTimeout", "UDPStreamTimeout", "-5s"),
    ] {
        let shown = if value.ends_with('s') { format!("\"{value}\"") } else { value.to_owned() };
        let expected = format!("{group}.{name}: Invalid value: {shown}");
        check(&format!("conntrack: {{{field}: {value}}}\n"), &[&expected]);
        check(&format!("conntrack: {{{field}: {}}}\n", if value.ends_with('s') { "0s" } else { "0" }), &[]);
    }
}

/// Row: server 8.2 #13
#[test]
fn the_oom_score_has_a_range() {
    for score in ["-1001", "1001"] {
        let expected = format!("KubeProxyLinuxConfiguration.OOMScoreAdj: Invalid value: {score}");
        check(&format!("oomScoreAdj: {score}\n"), &[&expected]);
    }
    check("oomScoreAdj: -1000\n", &[]);
    check("oomScoreAdj: 1000\n", &[]);
}

/// Row: server 8.2 #14
#[test]
fn the_burst_is_not_negative() {
    check("clientConnection: {burst: -5}\n", &["ClientConnection.Burst: Invalid value: -5"]);
    check("clientConnection: {burst: 0}\n", &[]);
}

/// Row: server 8.2 #15
#[test]
fn unknown_modes_are_refused() {
    for mode in ["kernelspace", "non-existing"] {
        check(&format!("mode: {mode}\n"), &[&format!("Mode.ProxyMode: Invalid value: \"{mode}\"")]);
    }
}

/// Row: server 8.2 #16
#[test]
fn unknown_local_modes_are_refused_with_the_list() {
    let problems = resolve("detectLocalMode: Guess\n").expect_err("refused");
    assert_eq!(
        problems.to_string(),
        "KubeProxyConfiguration.DetectLocalMode: Unsupported value: \"Guess\": supported values: \"ClusterCIDR\", \
         \"NodeCIDR\", \"BridgeInterface\", \"InterfaceNamePrefix\", \"\" (detectLocalMode)"
    );
}

fn check_node_ports(list: &str, expected: &[&str]) {
    check(&format!("nodePortAddresses: {list}\n"), expected);
}

/// Row: server 8.2 #17
#[test]
fn blocks_are_good_node_port_addresses() {
    for list in [
        "[127.0.0.0/8]",
        "[0.0.0.0/0]",
        "[\"::/0\"]",
        "[10.20.30.0/24, \"2001:db8::/32\"]",
        "[primary]",
        "[10.0.0.0/0]",
    ] {
        check_node_ports(list, &[]);
    }
}

/// Row: server 8.2 #18
#[test]
fn anything_else_is_refused_at_its_index() {
    for entry in ["foo", "1.2.3", "0", "10.20.30.40", "2001:db8:xyz/64"] {
        let expected = format!("NodePortAddresses[0]: Invalid value: \"{entry}\"");
        check_node_ports(&format!("[\"{entry}\"]"), &[&expected]);
    }
    check_node_ports(
        "[\"::0\", \"::1\"]",
        &["NodePortAddresses[0]: Invalid value: \"::0\"", "NodePortAddresses[1]: Invalid value: \"::1\""],
    );
}

/// Row: server 8.2 #19
///
/// 1.36 refused the mixture; 1.37, whose behaviour we have, takes it.
#[test]
fn primary_may_stand_beside_a_block() {
    check_node_ports("[primary, 127.0.0.1/32]", &[]);
    check_node_ports("[127.0.0.1/32, primary]", &[]);
}

/// Row: server 8.2 #20
#[test]
fn keywords_mix_freely_but_may_not_repeat() {
    check_node_ports("[primary, localhost, all]", &[]);
    check_node_ports("[localhost, 10.0.0.0/8, 10.0.0.0/8]", &[]);
    let problems = resolve("nodePortAddresses: [all, primary, all]\n").expect_err("refused");
    assert_eq!(
        problems.to_string(),
        "KubeProxyConfiguration.NodePortAddresses[2]: Duplicate value: \"all\" (nodePortAddresses)"
    );
    for typo in ["Localhost", "locahost"] {
        check_node_ports(
            &format!("[{typo}]"),
            &[&format!("NodePortAddresses[0]: Invalid value: \"{typo}\"")],
        );
    }
}

/// Row: server 8.2 #21
#[test]
fn the_ipvs_gate_decides_about_ipvs_alone() {
    let off = "featureGates: {KubeProxyIPVS: false}\n";
    check(&format!("mode: ipvs\n{off}"), &["Mode.ProxyMode: Invalid value: \"ipvs\""]);
    check(&format!("mode: iptables\n{off}"), &[]);
    check(&format!("mode: nftables\n{off}"), &[]);
}

/// Row: server 8.2 #22
#[test]
fn cluster_cidrs_are_one_or_a_pair() {
    let path = "DetectLocalConfiguration.ClusterCIDRs";
    for (list, shown) in [
        ("10.0.0.0/8,fd00::/64,11.0.0.0/8", "[\"10.0.0.0/8\",\"fd00::/64\",\"11.0.0.0/8\"]"),
        ("10.0.0.0/8,11.0.0.0/8", "[\"10.0.0.0/8\",\"11.0.0.0/8\"]"),
        ("fd00::/64,fd01::/64", "[\"fd00::/64\",\"fd01::/64\"]"),
    ] {
        check(&format!("clusterCIDR: {list}\n"), &[&format!("{path}: Invalid value: {shown}")]);
    }
    for bad in ["192.168.59.0", "172.16.200.0:24", "fd00:10:96::"] {
        check(&format!("clusterCIDR: \"{bad}\"\n"), &[&format!("{path}[0]: Invalid value: \"{bad}\"")]);
    }
    check("clusterCIDR: \"\"\n", &[]);
    check("clusterCIDR: bogus\ndetectLocalMode: NodeCIDR\n", &[]);
}

/// Row: server 8.2 #23
#[test]
fn interface_modes_need_their_interface() {
    check(
        "detectLocalMode: BridgeInterface\ndetectLocal: {interfaceNamePrefix: veth}\n",
        &["DetectLocalConfiguration.InterfaceName: Invalid value: \"\""],
    );
    check(
        "detectLocalMode: InterfaceNamePrefix\ndetectLocal: {bridgeInterface: cbr0}\n",
        &["DetectLocalConfiguration.InterfacePrefix: Invalid value: \"\""],
    );
}

#[test]
fn a_text_that_is_no_interface_is_refused_in_every_mode() {
    for mode in ["iptables", "nftables"] {
        for bad in ["0123456789abcdef", "veth+", "a/b", "a b", "a\\\"b", "a\\nb", "."] {
            let shown = format!("Invalid value: \"{bad}\"");
            check(
                &format!(
                    "mode: {mode}\ndetectLocalMode: InterfaceNamePrefix\ndetectLocal: {{interfaceNamePrefix: \"{bad}\"}}\n"
                ),
                &[&format!("DetectLocalConfiguration.InterfacePrefix: {shown}")],
            );
            check(
                &format!(
                    "mode: {mode}\ndetectLocalMode: BridgeInterface\ndetectLocal: {{bridgeInterface: \"{bad}\"}}\n"
                ),
                &[&format!("DetectLocalConfiguration.InterfaceName: {shown}")],
            );
        }
    }
    check("detectLocalMode: InterfaceNamePrefix\ndetectLocal: {interfaceNamePrefix: 0123456789abcde}\n", &[]);
}

/// Row: server 8.2 #24
#[test]
fn unknown_log_formats_are_refused() {
    check("logging: {format: unknown}\n", &["logging.format: Invalid value: \"unknown\""]);
}

#[test]
fn all_problems_are_reported_at_once_and_equal_ones_once() {
    let problems = resolve("mode: bogus\noomScoreAdj: 5000\nlogging: {format: xml}\n").expect_err("refused");
    let text = problems.to_string();
    assert_eq!(problems.0.len(), 3);
    assert!(text.starts_with("[logging.format: ") && text.ends_with(" (mode)]"), "{text}");
    let same = resolve("healthzBindAddress: \"x:1\"\nmetricsBindAddress: \"x:1\"\n").expect_err("refused");
    assert_eq!(same.0.len(), 2);
}

#[test]
fn a_problem_names_the_flag_it_came_from() {
    let problems = resolve_flags(&["--cluster-cidr=10.0.0.0/33"]).expect_err("refused");
    let text = problems.to_string();
    assert!(text.ends_with("; its length 33 is above 32, the longest in IPv4 (--cluster-cidr)"), "{text}");
    let empty = resolve_flags(&["--cluster-cidr="]).expect_err("kube-proxy refuses it too");
    assert!(empty.to_string().contains("ClusterCIDRs[0]: Invalid value: \"\""));
}

#[test]
fn logging_rules_hold() {
    for (body, expected) in [
        ("{flushFrequency: -1s}", "logging.flushFrequency: Invalid value: \"-1s\""),
        ("{verbosity: 4294967295}", "logging.verbosity: Invalid value: 4294967295"),
        ("{vmodule: [{filePattern: \"\"}]}", "logging.vmodule[0]: Required value"),
        ("{vmodule: [{filePattern: \"a=b\"}]}", "logging.vmodule[0]: Invalid value: \"a=b\""),
        ("{format: json, vmodule: [{filePattern: a}]}", "logging.vmodule: Forbidden"),
        ("{options: {text: {infoBufferSize: 4Ki}}}", "logging.options.text.infoBufferSize: Forbidden"),
    ] {
        check(&format!("logging: {body}\n"), &[expected]);
    }
    let flags = ["--logging-format=json", "--feature-gates=LoggingBetaOptions=false"];
    assert_eq!(complaints(resolve_flags(&flags)), ["logging.format: Forbidden"]);
    assert_eq!(
        complaints(resolve_flags(&["--log-text-split-stream"])),
        ["logging.options.text.splitStream: Forbidden"]
    );
}

#[test]
fn settings_hold_what_the_file_says() {
    let settings = resolve(
        "mode: ipvs\nipvs: {scheduler: wrr, minSyncPeriod: 0s, excludeCIDRs: [10.0.0.5/8], udpTimeout: 3s}\n\
         iptables: {masqueradeAll: true, masqueradeBit: 3}\nhostnameOverride: \" A \"\n\
         clientConnection: {qps: -1, contentType: application/json, kubeconfig: /k}\n\
         conntrack: {maxPerCore: 0, tcpEstablishedTimeout: 0s}\ndetectLocalMode: BridgeInterface\n\
         detectLocal: {bridgeInterface: cbr0}\nbindAddressHardFail: true\n",
    )
    .expect("valid");
    assert_eq!(settings.mode, ProxyMode::Ipvs);
    assert_eq!(
        settings.sync,
        SyncSettings {
            period: Duration::from_secs(30),
            min_period: Duration::ZERO,
            min_period_is_set: false
        }
    );
    assert_eq!(settings.masquerade, Masquerade { all: true, mark: 8 });
    assert_eq!(settings.ipvs.scheduler, "wrr");
    assert_eq!(settings.ipvs.exclude_cidrs, ["10.0.0.0/8".parse::<IpNet>().expect("a block")]);
    assert_eq!(settings.ipvs.udp_timeout, KernelValue::Set(Duration::from_secs(3)));
    assert_eq!(settings.ipvs.tcp_timeout, KernelValue::Keep);
    assert_eq!(settings.node_name, NodeNameSource::Override(" A ".to_owned()));
    assert_eq!(settings.client.rate, RequestRate::Unlimited);
    assert_eq!(settings.client.accept, "application/json, */*");
    assert_eq!(settings.client.access, ApiAccess::Kubeconfig { path: "/k".to_owned() });
    assert_eq!(settings.conntrack.max_per_core, KernelValue::Keep);
    assert_eq!(settings.conntrack.tcp_established_timeout, KernelValue::Keep);
    assert_eq!(settings.detect_local, DetectLocal::BridgeInterface("cbr0".to_owned()));
    assert_eq!(settings.on_bind_failure, OnBindFailure::Exit);
}

#[test]
fn a_rate_of_zero_is_client_gos_default() {
    for (flags, rate) in [
        (&[][..], RequestRate::Limited { per_second: 5.0, burst: 10 }),
        (&["--kube-api-qps=0", "--kube-api-burst=0"], RequestRate::Limited { per_second: 5.0, burst: 10 }),
        (&["--kube-api-qps=-0"], RequestRate::Limited { per_second: 5.0, burst: 10 }),
        (&["--kube-api-qps=7", "--kube-api-burst=0"], RequestRate::Limited { per_second: 7.0, burst: 10 }),
        (&["--kube-api-qps=0", "--kube-api-burst=3"], RequestRate::Limited { per_second: 5.0, burst: 3 }),
        (&["--kube-api-qps=-1"], RequestRate::Unlimited),
    ] {
        assert_eq!(resolve_flags(flags).expect("valid").client.rate, rate, "{flags:?}");
    }
}

#[test]
fn the_userspace_mode_uses_the_fields_of_its_time() {
    let settings = resolve("mode: userspace\nportRange: 30000+10\nudpIdleTimeout: 1s\n").expect("valid");
    let ports = PortRange::Between { first: 30000, last: 30010 };
    assert_eq!(settings.userspace, UserspaceSettings { ports, udp_idle_timeout: Duration::from_secs(1) });
    for (range, good) in
        [("", true), ("0-0", true), ("7", true), ("5-4", false), ("1-70000", false), ("x", false)]
    {
        let body = format!("mode: userspace\nportRange: \"{range}\"\n");
        assert_eq!(resolve(&body).is_ok(), good, "{range}");
        assert!(resolve(&format!("portRange: \"{range}\"\n")).is_ok(), "other modes do not look");
    }
}
