//! Every feature gate, set to the value it does not have by default: do both take it?

use std::io;

use ferrule_config::gates;

use crate::program::{Answer, Pair};
use crate::report::{Report, Topic};

/// Compares all gates of both releases.
pub fn compare(pair: &Pair, report: &mut Report) -> io::Result<()> {
    for gate in gates::known() {
        let arguments = [format!("--feature-gates={}={}", gate.name, !gate.default)];
        let theirs = pair.theirs.write_config(&arguments)?;
        let ours = pair.ours.write_config(&arguments)?;
        if theirs.accepted == ours.accepted {
            report.same(Topic::Gates);
            continue;
        }
        let line = format!(
            "{}: theirs {} ({}), ours {} ({})",
            arguments[0],
            verdict(&theirs),
            theirs.reason(),
            verdict(&ours),
            ours.reason()
        );
        report.differ(Topic::Gates, &line, reason(&gate, &theirs));
    }
    Ok(())
}

fn verdict(answer: &Answer) -> &'static str {
    if answer.accepted { "accepts" } else { "refuses" }
}

fn reason(gate: &gates::Gate, theirs: &Answer) -> Option<&'static str> {
    if !gate.known_to_1_37 && theirs.stderr.contains("unrecognized feature gate") {
        Some("1.36 knew it; files written for 1.36 must start")
    } else if theirs.stderr.contains("depend") {
        Some("dependencies between gates of other components do not concern a proxy")
    } else {
        None
    }
}
