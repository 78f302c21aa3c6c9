//! Unsafe code lives in one file.
//!
//! The workspace denies it, every crate takes the workspace's lints, and only the one file may lift the ban.

use crate::finding::Finding;
use crate::tree::SourceFile;

const HOME: &str = "crates/kernel/src/sys.rs";
const WORKSPACE: &str = "Cargo.toml";

/// Where the ban is missing or lifted.
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        if file.is_rust() && file.path != HOME {
            findings.extend(lifted_bans(file));
        } else if file.path == WORKSPACE && !denies_unsafe(&file.text) {
            let message =
                "unsafe code is not banned; set unsafe_code = \"deny\" under [workspace.lints.rust]";
            findings.push(Finding::new(&file.path, 1, message));
        } else if is_member_manifest(&file.path)
            && !has_line(section(&file.text, "[lints]"), "workspace=true")
        {
            let message = "does not take the workspace's lints; add `[lints]` with `workspace = true`";
            findings.push(Finding::new(&file.path, 1, message));
        }
    }
    findings
}

fn lifted_bans(file: &SourceFile) -> impl Iterator<Item = Finding> {
    file.numbered_lines().filter(|(_, line)| lifts_the_ban(line)).map(|(line, _)| {
        Finding::new(
            &file.path,
            line,
            format!("allows unsafe code; move the call to {HOME}, the one place for it"),
        )
    })
}

fn lifts_the_ban(line: &str) -> bool {
    let Some((before, _)) = line.split_once("unsafe_code") else { return false };
    ["allow(", "expect(", "warn("].iter().any(|attribute| before.contains(attribute))
}

fn denies_unsafe(manifest: &str) -> bool {
    let lints: Vec<&str> = section(manifest, "[workspace.lints.rust]").collect();
    ["unsafe_code=\"deny\"", "unsafe_code=\"forbid\""].iter().any(|ban| has_line(lints.iter().copied(), ban))
}

/// The crates that ship, and this one; fuzz targets and BPF programs stand outside the workspace.
fn is_member_manifest(path: &str) -> bool {
    (path.starts_with("crates/") || path.starts_with("xtask/")) && path.ends_with("/Cargo.toml")
}

/// The lines of a manifest between a heading and the next one.
fn section<'a>(manifest: &'a str, heading: &str) -> impl Iterator<Item = &'a str> {
    let from_heading = manifest.lines().skip_while(move |line| line.trim() != heading);
    from_heading.skip(1).take_while(|line| !line.starts_with('['))
}

fn has_line<'a>(mut lines: impl Iterator<Item = &'a str>, wanted: &str) -> bool {
    lines.any(|line| line.chars().filter(|letter| !letter.is_whitespace()).eq(wanted.chars()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(path: &str, text: &str) -> usize {
        findings(&[SourceFile { path: path.to_owned(), text: text.to_owned() }]).len()
    }

    #[test]
    fn the_ban_may_be_lifted_in_one_file_only() {
        for level in ["allow", "expect"] {
            let text = format!("#![{level}({}, reason = \"a syscall\")]\n", "unsafe_code");
            assert_eq!(found_in("crates/plan/src/ir.rs", &text), 1);
            assert_eq!(found_in("crates/kernel/src/nft/sys.rs", &text), 1);
            assert_eq!(found_in(HOME, &text), 0);
        }
    }

    #[test]
    fn the_workspace_must_ban_unsafe_code() {
        assert_eq!(found_in("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"deny\"\n"), 0);
        assert_eq!(found_in("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n"), 0);
        assert_eq!(found_in("Cargo.toml", "[workspace.lints.rust]\nunsafe_code = \"warn\"\n"), 1);
        assert_eq!(found_in("Cargo.toml", "[other]\nunsafe_code = \"deny\"\n"), 1);
    }

    #[test]
    fn every_crate_must_take_the_workspace_lints() {
        assert_eq!(found_in("crates/plan/Cargo.toml", "[package]\n[lints]\nworkspace = true\n"), 0);
        assert_eq!(found_in("crates/plan/Cargo.toml", "[package]\nworkspace = true\n[lints]\n"), 1);
        assert_eq!(found_in("crates/plan/Cargo.toml", "[package]\n"), 1);
        assert_eq!(found_in("fuzz/Cargo.toml", "[package]\n"), 0);
    }
}
