//! Which change of a file is applied, restarts, or is refused.

use super::*;
use crate::cli::parse;

const HEADER: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

fn verdict(flags: &[&str], before: &str, after: &str) -> Verdict {
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
    // What another mode's block says does not matter.
    let other = "mode: nftables\nipvs: {syncPeriod: 77s}\n";
    assert!(matches!(verdict(&[], "mode: nftables\n", other), Verdict::Unchanged));
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
        let text = match &refusal {
            Refusal::Complete(CompleteError::Decode(error)) => error.to_string(),
            other => other.to_string(),
        };
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
