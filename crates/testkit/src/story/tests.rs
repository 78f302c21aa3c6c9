//! The runner itself: it must notice what is wrong.

use super::*;

const STORY: &str = "\
# Outsiders are dropped when no endpoint is local.
-- cluster --
service web  LoadBalancer 203.0.113.7  clusterIP 10.96.0.10  port http 80→8080  externalTrafficPolicy Local  healthCheckNodePort 32000
endpoint web 10.244.2.5  node b  ready
node a  addresses 192.0.2.1  podCIDR 10.244.1.0/24
-- packets --
FROM          TO              OUTCOME
198.51.100.9  203.0.113.7:80  dropped
-- then: endpoint web 10.244.1.9 node a --
-- delta --
-- packets --
198.51.100.9  203.0.113.7:80  10.244.1.9:8080
";

fn findings(text: &str) -> Vec<Finding> {
    Story::parse(text).expect("a story").run().expect("a story that runs")
}

#[test]
fn a_true_story_has_no_findings_once_blessed() {
    let blessed = Story::parse(STORY).expect("a story").blessed().expect("a story that runs");
    assert_eq!(findings(&blessed), []);
    let again = Story::parse(&blessed).expect("a story").blessed().expect("a story that runs");
    assert_eq!(again, blessed, "blessing twice changes nothing");
    assert!(blessed.contains("changed  10.96.0.10:80/tcp, 203.0.113.7:80/tcp"), "{blessed}");
}

#[test]
fn a_wrong_packet_is_found_and_never_blessed_away() {
    let wrong = STORY.replace("203.0.113.7:80  dropped", "203.0.113.7:80  rejected");
    let blessed = Story::parse(&wrong).expect("a story").blessed().expect("a story that runs");
    let findings = findings(&blessed);
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(
        (findings[0].line, findings[0].expected.as_str(), findings[0].found.as_str()),
        (8, "rejected", "dropped")
    );
}

#[test]
fn a_wrong_delta_is_found() {
    let wrong = STORY.replace("-- delta --\n", "-- delta --\nnothing\n");
    assert_eq!(findings(&wrong).len(), 1);
}

#[test]
fn errors_name_the_line() {
    for (from, to, line, problem) in [
        ("endpoint web", "endpiont web", 4, "unknown word \"endpiont\""),
        ("port http 80→8080", "port http eighty", 3, "\"eighty\" is not a port number"),
        ("-- delta --", "-- dleta --", 10, "unknown section \"dleta\""),
        ("-- packets --", "-- packets -", 6, "should be a header"),
        ("  dropped", "", 8, "a packet is FROM  TO  OUTCOME"),
        ("node a --", "node a lying --", 9, "unknown word \"lying\""),
    ] {
        let text = STORY.replacen(from, to, 1);
        let error = Story::parse(&text).and_then(|story| story.run()).expect_err("a story with an error");
        assert_eq!(error.line, line, "{error}");
        assert!(error.problem.contains(problem), "{error}");
    }
}

#[test]
fn a_difference_in_order_alone_is_shown() {
    let finding = Finding { line: 3, expected: "a\nb\n".into(), found: "b\na\n".into() };
    assert_eq!(finding.to_string(), "line 3:\n  - a\n  - b\n  + b\n  + a");
}
