//! One case: do both accept it, and do they write the same configuration?

use std::io;
use std::path::Path;

use crate::cases::Case;
use crate::program::{Answer, Pair};
use crate::report::{Report, Topic};

/// Runs both programs on a case.
pub fn compare(pair: &Pair, case: &Case, scratch: &Path, report: &mut Report) -> io::Result<()> {
    let mut arguments = case.flags.clone();
    if let Some(file) = &case.file {
        let path = scratch.join("config.yaml");
        std::fs::write(&path, file)?;
        arguments.push(format!("--config={}", path.display()));
    }
    let theirs = pair.theirs.write_config(&arguments)?;
    let ours = pair.ours.write_config(&arguments)?;
    let reason = case.reason.as_deref();
    if theirs.accepted != ours.accepted {
        report.differ(Topic::Verdicts, &verdicts(case, &theirs, &ours), reason);
        return Ok(());
    }
    report.same(Topic::Verdicts);
    if !theirs.accepted {
        stale_unless_needed(case, report);
    } else if theirs.written == ours.written {
        report.same(Topic::Written);
        stale_unless_needed(case, report);
    } else {
        let line = format!("{}:\n{}", case.name, difference(&theirs, &ours));
        report.differ(Topic::Written, &line, reason);
    }
    Ok(())
}

fn stale_unless_needed(case: &Case, report: &mut Report) {
    if case.reason.is_some() {
        report.stale(&case.name);
    }
}

fn verdicts(case: &Case, theirs: &Answer, ours: &Answer) -> String {
    let who = |answer: &Answer| {
        if answer.accepted { "accepts".to_owned() } else { format!("refuses ({})", answer.reason()) }
    };
    format!("{}: kube-proxy {}, Ferrule {}", case.name, who(theirs), who(ours))
}

/// The lines that only one of the two wrote.
fn difference(theirs: &Answer, ours: &Answer) -> String {
    let lines = |answer: &Answer| -> Vec<String> {
        answer.written.as_deref().unwrap_or_default().lines().map(str::to_owned).collect()
    };
    let (theirs, ours) = (lines(theirs), lines(ours));
    let only = |these: &[String], those: &[String], mark: char| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).map(|line| format!("    {mark} {line}")).collect()
    };
    [only(&theirs, &ours, '-'), only(&ours, &theirs, '+')].concat().join("\n")
}
