//! What is passed over, what is refused, and how both are told.

use super::*;

const HEADER: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

fn decoded(body: &str) -> Decoded {
    decode(format!("{HEADER}{body}").as_bytes()).expect("decodes")
}

fn refusal(text: &str) -> String {
    decode(text.as_bytes()).expect_err("refused").to_string()
}

fn wrong_types(body: &str) -> String {
    refusal(&format!("{HEADER}{body}"))
}

#[test]
fn guesses_end_after_a_while() {
    let keys: Vec<String> = (10..40).map(|index| format!("mode{index}: x")).collect();
    let warnings = decoded(&keys.join("\n")).warnings;
    let guesses = warnings.iter().filter(|warning| warning.contains("did you mean")).count();
    assert_eq!((warnings.len(), guesses), (30, 20));
}

#[test]
fn wrong_types_name_line_and_field_and_come_together() {
    assert_eq!(
        wrong_types("bindAddress: 5\nconntrack:\n  min: x\nnodePortAddresses: [a, 1]\n"),
        "line 3: bindAddress: wants a string (put it in quotes), got a number; \
         line 5: conntrack.min: wants a whole number, got a string; \
         line 6: nodePortAddresses[1]: wants a string (put it in quotes), got a number"
    );
}

#[test]
fn a_number_is_no_duration() {
    assert!(wrong_types("configSyncPeriod: 10\n").contains("configSyncPeriod: wants a duration"));
    assert!(wrong_types("configSyncPeriod: \"10\"\n").contains("missing unit"));
    assert!(wrong_types("configSyncPeriod: null\n").contains("configSyncPeriod"));
}

#[test]
fn header_problems_name_the_field() {
    assert_eq!(refusal(""), "kind: missing, must be \"KubeProxyConfiguration\"");
    assert_eq!(refusal("kind: Pod\n"), "kind: \"Pod\" is not \"KubeProxyConfiguration\"");
    assert!(
        refusal("kind: KubeProxyConfiguration\napiVersion: v1\n").starts_with("apiVersion: \"v1\" is not")
    );
    assert!(refusal("kind: 5\n").starts_with("kind: wants"));
    assert!(refusal("- a\n").starts_with("line 1: the file holds a list"));
}

#[test]
fn a_wrong_case_is_an_unknown_field_with_a_guess() {
    let Decoded { configuration, warnings } = decoded("BindAddress: 1.2.3.4\nconntrack: {maxPerCor: 1}\n");
    assert_eq!(configuration.bind_address, "");
    assert_eq!(
        warnings,
        [
            "line 3: unknown field \"BindAddress\", did you mean \"bindAddress\"?",
            "line 4: unknown field \"conntrack.maxPerCor\", did you mean \"conntrack.maxPerCore\"?"
        ]
    );
}

#[test]
fn fields_of_old_releases_are_kept_with_a_warning() {
    let Decoded { configuration, warnings } = decoded("udpIdleTimeout: 1s\nresourceContainer: /kube-proxy\n");
    assert_eq!(configuration.resource_container, "/kube-proxy");
    assert_eq!(warnings.len(), 2);
    assert!(warnings[0].contains("gone from the API since Kubernetes 1.26"));
}

#[test]
fn of_two_groups_the_last_counts_alone() {
    let Decoded { configuration, warnings } = decoded("conntrack: {min: 1}\nconntrack: {maxPerCore: 2}\n");
    assert_eq!(configuration.conntrack.min, None);
    assert_eq!(configuration.conntrack.max_per_core, Some(2));
    assert_eq!(warnings.len(), 1);
}

#[test]
fn null_is_absent() {
    let Decoded { configuration, warnings } = decoded(
        "bindAddress: null\niptables: {masqueradeBit: null}\nnodePortAddresses: null\nfeatureGates: null\nlogging: null\n",
    );
    assert_eq!(configuration, KubeProxyConfiguration::default());
    assert_eq!(warnings, [""; 0]);
}
