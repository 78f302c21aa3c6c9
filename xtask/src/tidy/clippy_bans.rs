//! The pure crates do no I/O and read no clock, which clippy checks by a `clippy.toml` of their own.
//!
//! Clippy reads only the nearest such file, so each must repeat every line of the one at the top; without this
//! check a line added there would silently not hold in the pure crates.

use crate::finding::Finding;
use crate::tree::SourceFile;

const TOP: &str = "clippy.toml";
const PURE: [&str; 2] = ["crates/model", "crates/plan"];
/// A pure crate's list without this line is not the list it needs.
const CLOCK: &str = "std::time::Instant::now";

/// Pure crates without their bans, and files that leave out a line of the top one.
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let find = |path: &str| files.iter().find(|file| file.path == path);
    let mut findings = Vec::new();
    for pure in PURE.iter().filter(|pure| find(&format!("{pure}/Cargo.toml")).is_some()) {
        let path = format!("{pure}/{TOP}");
        if !find(&path).is_some_and(|file| file.text.contains(CLOCK)) {
            let message = "a pure crate without the bans on I/O and clocks; copy crates/model/clippy.toml";
            findings.push(Finding::new(&path, 1, message));
        }
    }
    let Some(top) = find(TOP) else { return findings };
    for nearer in files.iter().filter(|file| file.path.ends_with("/clippy.toml")) {
        findings.extend(missing_lines(top, nearer));
    }
    findings
}

fn missing_lines<'a>(top: &'a SourceFile, nearer: &'a SourceFile) -> impl Iterator<Item = Finding> {
    let settings = top.text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    settings.filter(|wanted| !nearer.text.lines().any(|line| line == *wanted)).map(|wanted| {
        Finding::new(&nearer.path, 1, format!("does not repeat `{}` of the top {TOP}; add it", wanted.trim()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let files: Vec<SourceFile> = files
            .iter()
            .map(|(path, text)| SourceFile { path: (*path).to_owned(), text: (*text).to_owned() })
            .collect();
        findings(&files).into_iter().map(|finding| finding.path).collect()
    }

    #[test]
    fn a_pure_crate_needs_its_bans() {
        let manifest = ("crates/plan/Cargo.toml", "");
        assert_eq!(found(&[manifest]), ["crates/plan/clippy.toml"]);
        assert_eq!(found(&[manifest, ("crates/plan/clippy.toml", "a = 1\n")]), ["crates/plan/clippy.toml"]);
        assert!(found(&[manifest, ("crates/plan/clippy.toml", CLOCK)]).is_empty());
        assert!(found(&[("crates/watch/Cargo.toml", "")]).is_empty());
    }

    #[test]
    fn a_nearer_file_repeats_the_top_one() {
        let top = ("clippy.toml", "# why\nallow-unwrap-in-tests = true\n");
        assert_eq!(found(&[top, ("crates/a/clippy.toml", "b = 2\n")]), ["crates/a/clippy.toml"]);
        assert!(found(&[top, ("crates/a/clippy.toml", "b = 2\nallow-unwrap-in-tests = true\n")]).is_empty());
    }
}
