//! A comment that puts something off names the issue where it is kept, as `#` and a number.
//!
//! Checks comments in code, scripts and configuration, not Markdown.

use crate::finding::Finding;
use crate::tree::SourceFile;

// Written in halves, so that this file does not find itself.
const MARKERS: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX"), concat!("HA", "CK")];

/// Comments with a marker and no issue number.
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        let Some(opening) = comment_opening(file) else { continue };
        for (number, line) in file.numbered_lines() {
            let Some((_, comment)) = line.split_once(opening) else { continue };
            if let Some(marker) = marker_in(comment)
                && !names_an_issue(comment)
            {
                let message =
                    format!("{marker} without an issue; write it as `{marker} #12: …` or do it now");
                findings.push(Finding::new(&file.path, number, message));
            }
        }
    }
    findings
}

/// What opens a comment in this kind of file; files without an ending are scripts and the Makefile.
fn comment_opening(file: &SourceFile) -> Option<&'static str> {
    match file.extension() {
        Some("rs" | "c" | "h" | "go") => Some("//"),
        Some("toml" | "sh" | "yaml" | "yml" | "story" | "mk") | None => Some("#"),
        _ => None,
    }
}

fn marker_in(comment: &str) -> Option<&'static str> {
    let mut words = comment.split(|letter: char| !letter.is_alphanumeric() && letter != '_' && letter != '-');
    words.find_map(|word| MARKERS.into_iter().find(|marker| *marker == word))
}

fn names_an_issue(comment: &str) -> bool {
    comment.split('#').skip(1).any(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(path: &str, template: &str) -> usize {
        let text = template.replace("MARK", MARKERS[0]);
        findings(&[SourceFile { path: path.to_owned(), text }]).len()
    }

    #[test]
    fn a_reminder_without_an_issue_is_found() {
        assert_eq!(found_in("a.rs", "let a = 1; // MARK: later\n"), 1);
        assert_eq!(found_in("a.rs", "/// MARK(someone) later\n"), 1);
        assert_eq!(found_in("a.toml", "# MARK later\n"), 1);
        assert_eq!(found_in("Makefile", "all: # MARK\n"), 1);
    }

    #[test]
    fn a_reminder_with_an_issue_passes() {
        assert_eq!(found_in("a.rs", "// MARK #12: later\n"), 0);
        assert_eq!(found_in("a.toml", "# MARK later, see #3\n"), 0);
    }

    #[test]
    fn only_whole_words_in_comments_count() {
        assert_eq!(found_in("a.rs", "let MARK = 1;\n"), 0);
        assert_eq!(found_in("a.rs", "// KUBE-SVC-MARK and MARKING are names\n"), 0);
        assert_eq!(found_in("a.md", "# MARK\n"), 0);
    }
}
