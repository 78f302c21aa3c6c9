//! Flags and file together, as in the tables of kube-proxy's own loading.

use super::*;
use crate::cli::parse;
use crate::config::encode::encode;
use crate::go::GoDuration;
use crate::settings::{FlagOnly, Settings};

const HEADER: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

fn with_flags(flags: &[&str]) -> Completed {
    let line = parse(flags).expect("good flags");
    complete(&line, |_| panic!("no file is asked for")).expect("a configuration")
}

fn with_file(flags: &[&str], body: &str) -> Result<Completed, CompleteError> {
    let flags: Vec<&str> = flags.iter().copied().chain(["--config=file"]).collect();
    let line = parse(&flags).expect("good flags");
    complete(&line, |_| Ok(format!("{HEADER}{body}").into_bytes()))
}

fn periods(flags: &[&str]) -> (String, String) {
    let effective = with_flags(flags).effective;
    (effective.block.sync_period.to_string(), effective.block.min_sync_period.to_string())
}

fn seconds(sync: u32, min_sync: u32) -> (String, String) {
    (format!("{sync}s"), format!("{min_sync}s"))
}

/// Row: server 8.1 #4
#[test]
fn the_hostname_flag_wins_over_the_file_and_is_trimmed() {
    let completed = with_file(&["--hostname-override=  bar "], "hostnameOverride: foo\n").expect("valid");
    assert_eq!(completed.effective.configuration.hostname_override, "bar");
}

/// Row: server 8.1 #5
#[test]
fn without_the_flag_the_files_hostname_counts() {
    let completed = with_file(&[], "hostnameOverride: foo\n").expect("valid");
    assert_eq!(completed.effective.configuration.hostname_override, "foo");
}

/// Row: server 8.1 #6
#[test]
fn a_blank_hostname_flag_is_an_error() {
    let refused = with_file(&["--hostname-override=   "], "hostnameOverride: foo\n");
    assert!(matches!(refused, Err(CompleteError::HostnameOverride(_))));
}

/// Row: server 8.1 #7
#[test]
fn iptables_periods_count_in_every_mode_but_ipvs() {
    for mode in ["iptables", "kernelspace", "nftables"] {
        let mode = format!("--proxy-mode={mode}");
        let flags = [mode.as_str(), "--iptables-sync-period=36s", "--iptables-min-sync-period=3s"];
        assert_eq!(periods(&flags), seconds(36, 3), "{mode}");
    }
}

const ALL_PERIODS: [&str; 4] = [
    "--iptables-sync-period=36s",
    "--iptables-min-sync-period=3s",
    "--ipvs-sync-period=16s",
    "--ipvs-min-sync-period=7s",
];

/// Row: server 8.1 #8
#[test]
fn ipvs_periods_do_not_count_in_iptables_mode() {
    let flags: Vec<&str> = ALL_PERIODS.into_iter().chain(["--proxy-mode=iptables"]).collect();
    assert_eq!(periods(&flags), seconds(36, 3));
}

/// Row: server 8.1 #9
#[test]
fn ipvs_periods_count_in_ipvs_mode() {
    let flags: Vec<&str> = ALL_PERIODS.into_iter().chain(["--proxy-mode=ipvs"]).collect();
    assert_eq!(periods(&flags), seconds(16, 7));
}

/// Row: server 8.1 #10
#[test]
fn cluster_cidrs_keep_their_order() {
    let completed = with_flags(&["--cluster-cidr=2002:0:0:1234::/64,10.0.0.0/14"]);
    assert_eq!(completed.effective.cluster_cidrs, ["2002:0:0:1234::/64", "10.0.0.0/14"]);
}

/// Row: server 8.1 #11
#[test]
fn conntrack_zeros_stay_zero() {
    let completed = with_flags(&[
        "--conntrack-max-per-core=0",
        "--conntrack-min=0",
        "--conntrack-tcp-timeout-established=0",
        "--conntrack-tcp-timeout-close-wait=0",
    ]);
    let conntrack = completed.effective.configuration.conntrack;
    assert_eq!((conntrack.max_per_core, conntrack.min), (Some(0), Some(0)));
    assert_eq!(conntrack.tcp_established_timeout, Some(GoDuration::ZERO));
    assert_eq!(conntrack.tcp_close_wait_timeout, Some(GoDuration::ZERO));
}

/// Row: server 8.1 #12
#[test]
fn an_empty_file_means_the_same_as_no_flags() {
    let from_file = with_file(&[], "").expect("valid").effective;
    assert_eq!(encode(&from_file.to_written()), encode(&with_flags(&[]).effective.to_written()));
}

/// Row: server 8.1 #13
#[test]
fn logging_flags_are_merged_into_the_file_and_others_ignored() {
    let file = "logging:\n  format: json\n  flushFrequency: 1s\n  verbosity: 10\n  vmodule:\n  \
                - {filePattern: foo.go, verbosity: 6}\n  - {filePattern: bar.go, verbosity: 8}\n";
    let flags = ["-v=7", "--vmodule", "goo.go=8", "--ipvs-scheduler", "x"];
    let configuration = with_file(&flags, file).expect("valid").effective.configuration;
    let logging = configuration.logging;
    assert_eq!(logging.format, "json");
    assert_eq!(logging.flush_frequency.every, GoDuration::seconds(1));
    assert_eq!(logging.verbosity, 7);
    assert_eq!(crate::cli::values::vmodule_text(&logging.vmodule), "goo.go=8,foo.go=6,bar.go=8");
    assert_eq!(configuration.ipvs.scheduler, "");
}

/// Row: server 8.1 #14
#[test]
fn unknown_and_duplicate_fields_load_with_a_warning() {
    let unknown = with_file(&[], "foo: bar\n").expect("loads");
    assert_eq!(unknown.strict_warnings, ["line 3: unknown field \"foo\""]);
    let duplicate = with_file(&[], "bindAddress: 1.1.1.1\nbindAddress: 2.2.2.2\n").expect("loads");
    assert_eq!(duplicate.strict_warnings.len(), 1);
    assert!(duplicate.strict_warnings[0].contains("bindAddress"));
    assert_eq!(duplicate.effective.configuration.bind_address, "2.2.2.2");
}

/// Row: server 8.1 #15
#[test]
fn ipv6_bind_addresses_load_in_every_spelling_and_brackets_fail_later() {
    for body in ["bindAddress: ::0\n", "bindAddress: \"::\"\n"] {
        let completed = with_file(&[], body).expect("loads");
        assert!(Settings::resolve(&completed, &FlagOnly::default()).is_ok(), "{body}");
    }
    let brackets = with_file(&[], "bindAddress: \"[::]\"\n").expect("loads");
    assert!(Settings::resolve(&brackets, &FlagOnly::default()).is_err());
}

/// Row: server 8.1 #16
#[test]
fn what_is_no_configuration_does_not_decode() {
    let line = parse(&["--config=file"]).expect("good flags");
    for text in [
        "not: [yaml",
        "bindAddress: ::\n",
        "kind: Pod\napiVersion: kubeproxy.config.k8s.io/v1alpha1\n",
        "kind: KubeProxyConfiguration\n",
    ] {
        let with_header = format!("{HEADER}{text}");
        let text = if text.starts_with("bind") { &with_header } else { text };
        let refused = complete(&line, |_| Ok(text.as_bytes().to_vec()));
        assert!(matches!(refused, Err(CompleteError::Decode(_))), "{text}");
    }
}

/// Row: server 8.1 #17
#[test]
fn deprecated_port_flags_fill_in_a_missing_port() {
    for (address, port, result) in [
        ("1.2.3.4", 12345, "1.2.3.4:12345"),
        ("1.2.3.4:12345", 23456, "1.2.3.4:12345"),
        ("fd00:1::5", 12345, "[fd00:1::5]:12345"),
        ("[fd00:1::5]:12345", 23456, "[fd00:1::5]:12345"),
        ("[fd00:1::5]", 12345, "[fd00:1::5]"),
        ("1.2.3.4:12345", 0, ""),
    ] {
        let mut applied = address.to_owned();
        apply_port(&mut applied, port);
        assert_eq!(applied, result);
    }
}

/// Row: server 8.1 #18
#[test]
fn bare_addresses_in_a_file_get_the_default_ports() {
    let configuration = with_file(&[], "healthzBindAddress: 127.0.0.1\nmetricsBindAddress: 127.0.0.1\n")
        .expect("valid")
        .effective;
    assert_eq!(configuration.configuration.healthz_bind_address, "127.0.0.1:10256");
    assert_eq!(configuration.configuration.metrics_bind_address, "127.0.0.1:10249");
}

/// Row: server 8.1 #19
#[test]
fn an_ipv6_bind_address_moves_the_other_addresses() {
    let configuration = with_file(&[], "bindAddress: \"::\"\n").expect("valid").effective.configuration;
    assert_eq!(configuration.healthz_bind_address, "[::]:10256");
    assert_eq!(configuration.metrics_bind_address, "[::1]:10249");
}

/// Row: server 8.1 #20
#[test]
fn platform_defaults_fill_what_is_empty_and_keep_the_rest() {
    let defaults = with_flags(&[]);
    assert!(defaults.mode_was_unset);
    assert_eq!(defaults.effective.configuration.mode.text(), "iptables");
    assert_eq!(defaults.effective.configuration.detect_local_mode, "ClusterCIDR");
    assert_eq!(defaults.effective.configuration.node_port_addresses, None);
    let explicit = with_flags(&["--proxy-mode=ipvs", "--detect-local-mode=NodeCIDR"]);
    assert!(!explicit.mode_was_unset);
    assert_eq!(explicit.effective.configuration.mode.text(), "ipvs");
    assert_eq!(explicit.effective.configuration.detect_local_mode, "NodeCIDR");
    let nftables = with_flags(&["--proxy-mode=nftables"]).effective.configuration;
    assert_eq!(nftables.node_port_addresses, Some(vec!["primary".to_owned()]));
    let listed = with_flags(&["--proxy-mode=nftables", "--nodeport-addresses=all"]).effective.configuration;
    assert_eq!(listed.node_port_addresses, Some(vec!["all".to_owned()]));
}

/// Row: server 8.1 #21
#[test]
fn the_written_configuration_has_its_values_in_the_active_modes_block() {
    let flags = [
        "--write-config-to=x",
        "--proxy-mode=nftables",
        "--iptables-sync-period=45s",
        "--masquerade-all",
        "--iptables-masquerade-bit=7",
    ];
    let text = encode(&with_flags(&flags).effective.to_written());
    let block = |name: &str| -> Vec<&str> {
        text.lines()
            .skip_while(|line| *line != name)
            .skip(1)
            .take_while(|line| line.starts_with(' '))
            .collect()
    };
    assert_eq!(
        block("nftables:"),
        ["  masqueradeAll: true", "  masqueradeBit: 14", "  minSyncPeriod: 1s", "  syncPeriod: 45s"]
    );
    let iptables = block("iptables:");
    for line in ["  masqueradeAll: false", "  masqueradeBit: 7", "  minSyncPeriod: 0s", "  syncPeriod: 0s"] {
        assert!(iptables.contains(&line), "{line} in {iptables:?}");
    }
}

#[test]
fn ports_of_deprecated_flags_count_only_for_a_run() {
    let addresses = |flags: &[&str]| {
        let configuration = with_flags(flags).effective.configuration;
        (configuration.healthz_bind_address, configuration.metrics_bind_address)
    };
    let off = addresses(&["--healthz-port=0", "--metrics-bind-address=1.2.3.4"]);
    assert_eq!(off, (String::new(), "1.2.3.4:10249".to_owned()));
    let written = addresses(&["--healthz-port=0", "--metrics-bind-address=1.2.3.4", "--write-config-to=x"]);
    assert_eq!(written, ("0.0.0.0:10256".to_owned(), "1.2.3.4".to_owned()));
}

#[test]
fn split_streams_of_a_file_need_the_gate_and_are_else_passed_over() {
    let body = "logging: {options: {text: {splitStream: true}}}\n";
    let without = with_file(&[], body).expect("loads");
    assert!(!without.effective.configuration.logging.text.split_stream);
    assert_eq!(without.strict_warnings.len(), 1);
    let with =
        with_file(&[], &format!("featureGates: {{LoggingAlphaOptions: true}}\n{body}")).expect("loads");
    assert!(with.effective.configuration.logging.text.split_stream);
    let swept = with_file(&[], &format!("featureGates: {{AllAlpha: true}}\n{body}")).expect("loads");
    assert!(swept.effective.configuration.logging.text.split_stream);
    // The gate's own word counts for more than the sweeping one.
    let gates = "featureGates: {AllAlpha: true, LoggingAlphaOptions: false}\n";
    let kept_off = with_file(&[], &format!("{gates}{body}")).expect("loads");
    assert!(!kept_off.effective.configuration.logging.text.split_stream);
}

#[test]
fn an_unreadable_file_is_an_error_that_names_it() {
    let line = parse(&["--config=/no/such/file"]).expect("good flags");
    let refused = complete(&line, |path| std::fs::read(path)).expect_err("no such file");
    assert_eq!(refused.to_string(), "reading \"/no/such/file\"");
}
