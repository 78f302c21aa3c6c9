//! The flag lists: names and value types from `--help`, defaults of all flags, hidden ones too, from the log.

use std::collections::BTreeMap;
use std::io;

use ferrule_config::cli::flags::{self, Lifecycle};

use crate::program::{Pair, Program};
use crate::report::{Report, Topic};

/// Compares both lists.
pub fn compare(pair: &Pair, report: &mut Report) -> io::Result<()> {
    let help = ["--help".to_owned()];
    let theirs = shown(&pair.theirs.run(&help)?.stdout);
    let ours = shown(&pair.ours.run(&help)?.stdout);
    compare_maps(&theirs, &ours, "--help", report);
    compare_maps(&logged(&pair.theirs)?, &logged(&pair.ours)?, "default", report);
    compare_version(pair, report)
}

/// Flags that kube-proxy does not have.
const OWN: [&str; 3] = [flags::MANIFESTS, flags::SANDBOX, flags::ALLOWED_EXTERNAL_IP_CIDRS];

fn compare_maps(
    theirs: &BTreeMap<String, String>,
    ours: &BTreeMap<String, String>,
    what: &str,
    report: &mut Report,
) {
    let mut names: Vec<&String> = theirs.keys().chain(ours.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let (their, our) = (theirs.get(name), ours.get(name));
        if their == our {
            report.same(Topic::Flags);
            continue;
        }
        let reason = flags::find(name).and_then(|flag| match flag.lifecycle {
            Lifecycle::GoneSince(release) if their.is_none() => {
                Some(format!("it is gone since {release}, and old manifests still carry it"))
            }
            Lifecycle::Current if their.is_none() && OWN.contains(&flag.name) => {
                Some("it is Ferrule's own".to_owned())
            }
            _ => None,
        });
        let line = format!("--{name} ({what}): theirs {their:?}, ours {our:?}");
        report.differ(Topic::Flags, &line, reason.as_deref());
    }
}

/// Flag name to "short, type word, default", from the lines of a help text that begin a flag.
fn shown(help: &str) -> BTreeMap<String, String> {
    let mut flags = BTreeMap::new();
    for line in help.lines().filter(|line| line.starts_with("      --") || line.starts_with("  -")) {
        let Some((_, long)) = line.split_once("--") else { continue };
        let head = long.split("   ").next().unwrap_or(long);
        let (name, word) = head.split_once(' ').unwrap_or((head, ""));
        let short = line.trim_start().split(',').next().filter(|word| word.len() == 2).unwrap_or("");
        let default = line.rsplit_once("(default ").map_or("", |(_, rest)| rest.trim_end_matches(')'));
        flags.insert(name.to_owned(), format!("{short} {} {default}", word.trim()));
    }
    flags
}

/// Flag name to default, from the log of all flags.
fn logged(program: &Program) -> io::Result<BTreeMap<String, String>> {
    let answer = program.write_config(&["-v=1".to_owned()])?;
    let pairs = answer.stderr.lines().filter_map(|line| line.split_once("FLAG: --")?.1.split_once('='));
    Ok(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
}

fn compare_version(pair: &Pair, report: &mut Report) -> io::Result<()> {
    let ask = ["--version".to_owned()];
    let (theirs, ours) = (pair.theirs.run(&ask)?.stdout, pair.ours.run(&ask)?.stdout);
    if theirs == ours {
        report.same(Topic::Flags);
    } else {
        report.differ(Topic::Flags, &format!("--version: theirs {theirs:?}, ours {ours:?}"), None);
    }
    Ok(())
}
