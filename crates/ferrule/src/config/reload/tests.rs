//! Which change of a file is applied, restarts, or is refused.

use super::*;
use crate::cli::parse;

const HEADER: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

fn verdict(flags: &[&str], before: &str, after: &str) -> Verdict {
    judgement(flags, before, after).verdict
}

fn judgement(flags: &[&str], before: &str, after: &str) -> Judgement {
    let flags: Vec<&str> = flags.iter().copied().chain(["--config=file"]).collect();
    let line = parse(&flags).expect("good flags");
    let in_effect =
        complete_with_file(&line, format!("{HEADER}{before}").as_bytes()).expect("valid").effective;
    judge(&line, &in_effect, format!("{HEADER}{after}").as_bytes())
}

#[test]
fn a_change_of_spelling_is_no_change() {
    assert!(matches!(
        verdict(&[], "mode: nftables\n", "# a comment\nmode: \"nftables\"\n"),
        Verdict::Unchanged
    ));
    assert!(matches!(verdict(&[], "", "oomScoreAdj: -999\n"), Verdict::Unchanged));
}

#[test]
fn what_another_mode_alone_looks_at_does_not_matter() {
    for other in [
        "ipvs: {syncPeriod: 77s, scheduler: wrr, strictARP: true}\n",
        "iptables: {masqueradeBit: 3, localhostNodePorts: false}\n",
        "portRange: 1-2\nudpIdleTimeout: 1s\n",
    ] {
        let after = format!("mode: nftables\n{other}");
        assert!(matches!(verdict(&[], "mode: nftables\n", &after), Verdict::Unchanged), "{other}");
    }
    let own = verdict(&[], "mode: nftables\n", "mode: nftables\nnftables: {masqueradeBit: 3}\n");
    assert!(matches!(own, Verdict::Restart { .. }), "{own:?}");
}

#[test]
fn warnings_come_beside_every_verdict() {
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
    let Verdict::Apply { settings, effective, changed } =
        verdict(&[], "", "logging: {verbosity: 4}\nnodePortAddresses: [primary]\nconntrack: {min: 5}\n")
    else {
        panic!("not applied");
    };
    assert_eq!(changed, ["logging.verbosity", "conntrack.min", "nodePortAddresses"]);
    assert_eq!(settings.logging.verbosity, 4);
    assert_eq!(effective.configuration.conntrack.min, Some(5));
}

#[test]
fn one_field_that_needs_it_restarts_everything() {
    let Verdict::Restart { because_of } = verdict(&[], "", "mode: nftables\nlogging: {verbosity: 4}\n")
    else {
        panic!("no restart");
    };
    assert_eq!(because_of, ["mode"]);
}

#[test]
fn an_invalid_file_is_refused_with_its_reason() {
    for (after, reason) in [
        ("mode: bogus\n", "Mode.ProxyMode"),
        ("oomScoreAdj: x\n", "line 3: oomScoreAdj"),
        ("foo: [\n", "line "),
        ("featureGates: {Foo: true}\n", "Foo"),
    ] {
        let Verdict::Refused(refusal) = verdict(&[], "", after) else { panic!("{after} is not refused") };
        let text = refusal.to_string();
        assert!(text.contains(reason), "{text}");
    }
}

#[test]
fn flags_that_win_over_the_file_still_win() {
    assert!(matches!(verdict(&["-v=3"], "", "logging: {verbosity: 4}\n"), Verdict::Unchanged));
    assert!(matches!(verdict(&["--hostname-override=a"], "", "hostnameOverride: b\n"), Verdict::Unchanged));
}

#[test]
fn windows_fields_change_nothing() {
    assert!(matches!(verdict(&[], "", "winkernel: {networkName: x}\n"), Verdict::Unchanged));
}
