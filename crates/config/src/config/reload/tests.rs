//! Which change of a file is applied, restarts, or is rejected.

use std::error::Error;

use super::*;
use crate::cli::parse;

const HEADER: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

fn reload(flags: &[&str], before: &str, after: &str) -> Option<Reload> {
    judgement(flags, before, after).reload.expect("a valid file")
}

fn judgement(flags: &[&str], before: &str, after: &str) -> Judgement {
    let flags: Vec<&str> = flags.iter().copied().chain(["--config=file"]).collect();
    let line = parse(&flags).expect("good flags");
    let in_effect =
        complete_with_file(&line, format!("{HEADER}{before}").as_bytes()).expect("valid").effective;
    judge(&line, &in_effect, format!("{HEADER}{after}").as_bytes())
}

fn with_causes(error: &dyn Error) -> String {
    match error.source() {
        Some(cause) => format!("{error}: {}", with_causes(cause)),
        None => error.to_string(),
    }
}

#[test]
fn a_change_of_spelling_is_no_change() {
    assert_eq!(reload(&[], "mode: nftables\n", "# a comment\nmode: \"nftables\"\n"), None);
    assert_eq!(reload(&[], "", "oomScoreAdj: -999\n"), None);
}

#[test]
fn what_another_mode_alone_looks_at_does_not_matter() {
    for other in [
        "ipvs: {syncPeriod: 77s, scheduler: wrr, strictARP: true}\n",
        "iptables: {masqueradeBit: 3, localhostNodePorts: false}\n",
        "portRange: 1-2\nudpIdleTimeout: 1s\n",
    ] {
        let after = format!("mode: nftables\n{other}");
        assert_eq!(reload(&[], "mode: nftables\n", &after), None, "{other}");
    }
    let own = reload(&[], "mode: nftables\n", "mode: nftables\nnftables: {masqueradeBit: 3}\n");
    assert_eq!(own, Some(Reload::Restart { because_of: vec!["nftables.masqueradeBit"] }));
}

#[test]
fn warnings_come_beside_every_decision() {
    for (body, expected) in [
        ("verbosity: 4\n", "unknown field \"verbosity\""),
        ("mode: nftables\nmode: nftables\n", "set more than once"),
        ("featureGates: {WinDSR: true}\n", "Setting GA feature gate WinDSR=true"),
        ("mode: bogus\nverbosity: 4\n", "unknown field \"verbosity\""),
    ] {
        let warnings = judgement(&[], "", body).warnings;
        assert_eq!(warnings.len(), 1, "{body}: {warnings:?}");
        assert!(warnings[0].contains(expected), "{warnings:?}");
    }
    assert_eq!(judgement(&[], "", "logging: {verbosity: 4}\n").warnings, Vec::<String>::new());
}

#[test]
fn reloadable_fields_are_applied() {
    let Some(Reload::Apply { settings, effective, changed }) =
        reload(&[], "", "logging: {verbosity: 4}\nnodePortAddresses: [primary]\nconntrack: {min: 5}\n")
    else {
        panic!("not applied");
    };
    assert_eq!(changed, ["logging.verbosity", "conntrack.min", "nodePortAddresses"]);
    assert_eq!(settings.logging.verbosity, 4);
    assert_eq!(effective.configuration.conntrack.min, Some(5));
}

#[test]
fn one_field_that_needs_it_restarts_everything() {
    let asked = reload(&[], "", "mode: nftables\nlogging: {verbosity: 4}\n");
    assert_eq!(asked, Some(Reload::Restart { because_of: vec!["mode"] }));
}

#[test]
fn an_invalid_file_is_rejected_with_its_reason() {
    for (after, reason) in [
        ("mode: bogus\n", "Mode.ProxyMode"),
        ("oomScoreAdj: x\n", "line 3: oomScoreAdj"),
        ("foo: [\n", "line "),
        ("featureGates: {Foo: true}\n", "Foo"),
    ] {
        let invalid = judgement(&[], "", after).reload.expect_err("it is invalid");
        let text = with_causes(&invalid);
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn flags_that_win_over_the_file_still_win() {
    assert_eq!(reload(&["-v=3"], "", "logging: {verbosity: 4}\n"), None);
    assert_eq!(reload(&["--hostname-override=a"], "", "hostnameOverride: b\n"), None);
}

#[test]
fn windows_fields_change_nothing() {
    assert_eq!(reload(&[], "", "winkernel: {networkName: x}\n"), None);
}
