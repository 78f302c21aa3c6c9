//! One case: do both accept it, write the same configuration, warn alike, and complain about the same fields?

use std::io;
use std::path::Path;

use crate::cases::Case;
use crate::program::{Answer, Pair};
use crate::report::{Report, Topic};

/// One thing compared: what about, and how the two differ if they do.
type Finding = (Topic, Option<String>);

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
    let findings = findings(&theirs, &ours);
    if case.reason.is_some() && findings.iter().all(|(_, difference)| difference.is_none()) {
        report.stale(&case.name);
    }
    for (topic, difference) in findings {
        match difference {
            None => report.same(topic),
            Some(text) => report.differ(topic, &format!("{}: {text}", case.name), case.reason.as_deref()),
        }
    }
    Ok(())
}

fn findings(theirs: &Answer, ours: &Answer) -> Vec<Finding> {
    match (theirs.accepted, ours.accepted) {
        (true, true) => vec![(Topic::Verdicts, None), written(theirs, ours), warnings(theirs, ours)],
        (false, false) => [(Topic::Verdicts, None)].into_iter().chain(complaints(theirs, ours)).collect(),
        _ => vec![verdicts(theirs, ours)],
    }
}

fn verdicts(theirs: &Answer, ours: &Answer) -> Finding {
    let who = |answer: &Answer| {
        if answer.accepted { "accepts".to_owned() } else { format!("refuses ({})", answer.reason()) }
    };
    (Topic::Verdicts, Some(format!("kube-proxy {}, Ferrule {}", who(theirs), who(ours))))
}

fn written(theirs: &Answer, ours: &Answer) -> Finding {
    let difference = (theirs.written != ours.written).then(|| differing_lines(theirs, ours));
    (Topic::Written, difference)
}

/// The lines that only one of the two wrote.
fn differing_lines(theirs: &Answer, ours: &Answer) -> String {
    let lines = |answer: &Answer| -> Vec<String> {
        answer.written.as_deref().unwrap_or_default().lines().map(str::to_owned).collect()
    };
    let (theirs, ours) = (lines(theirs), lines(ours));
    let only = |these: &[String], those: &[String], mark: char| -> Vec<String> {
        these.iter().filter(|line| !those.contains(line)).map(|line| format!("\n    {mark} {line}")).collect()
    };
    [only(&theirs, &ours, '-'), only(&ours, &theirs, '+')].concat().concat()
}

/// Whether a file was read leniently is said by both or by neither.
fn warnings(theirs: &Answer, ours: &Answer) -> Finding {
    let warns = |answer: &Answer| answer.stderr.contains("Using lenient decoding");
    let difference = (warns(theirs) != warns(ours))
        .then(|| format!("kube-proxy warns: {}, Ferrule warns: {}", warns(theirs), warns(ours)));
    (Topic::Warnings, difference)
}

/// Where both refuse a configuration they could read, they must complain about the same fields in the same order.
fn complaints(theirs: &Answer, ours: &Answer) -> Option<Finding> {
    let (their, our) = (complained_fields(&theirs.stderr), complained_fields(&ours.stderr));
    if their.is_empty() && our.is_empty() {
        return None;
    }
    let difference = (their != our).then(|| format!("kube-proxy about {their:?}, Ferrule about {our:?}"));
    Some((Topic::Complaints, difference))
}

/// `path: kind` of every complaint, such as `KubeProxyConfiguration.Mode.ProxyMode: Invalid value`.
fn complained_fields(stderr: &str) -> Vec<String> {
    let kinds =
        [": Invalid value", ": Unsupported value", ": Duplicate value", ": Forbidden", ": Required value"];
    let mut found: Vec<(usize, String)> = Vec::new();
    for kind in kinds {
        for (at, _) in stderr.match_indices(kind) {
            let start = stderr[..at].rfind([' ', '"']).map_or(0, |space| space + 1);
            let path = stderr[start..at].trim_start_matches('[');
            if path.starts_with("KubeProxyConfiguration.") || path.starts_with("logging.") {
                found.push((at, format!("{path}{kind}")));
            }
        }
    }
    found.sort();
    found.into_iter().map(|(_, complaint)| complaint).collect()
}
