//! Every Rust file opens with module docs, so that a reader knows what it is for before reading it.

use crate::finding::Finding;
use crate::tree::SourceFile;

/// One finding for each file whose first line of text is not `//!`.
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    files
        .iter()
        .filter(|file| file.is_rust() && !opens_with_docs(&file.text))
        .map(|file| {
            Finding::new(&file.path, 1, "no module docs; open with `//!` saying what the file is for")
        })
        .collect()
}

fn opens_with_docs(text: &str) -> bool {
    let first = text.lines().find(|line| !line.trim().is_empty());
    first.and_then(|line| line.strip_prefix("//!")).is_some_and(|words| !words.trim().is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(path: &str, text: &str) -> usize {
        findings(&[SourceFile { path: path.to_owned(), text: text.to_owned() }]).len()
    }

    #[test]
    fn a_file_without_module_docs_is_found() {
        assert_eq!(found_in("a.rs", "use std::fmt;\n"), 1);
        assert_eq!(found_in("a.rs", "// Only a comment.\n"), 1);
        assert_eq!(found_in("a.rs", "use std::fmt;\n//! Too late.\n"), 1);
        assert_eq!(found_in("a.rs", "//!\nuse std::fmt;\n"), 1);
        assert_eq!(found_in("a.rs", ""), 1);
    }

    #[test]
    fn module_docs_and_other_files_pass() {
        assert_eq!(found_in("a.rs", "\n//! What it is for.\n"), 0);
        assert_eq!(found_in("a.toml", "[package]\n"), 0);
    }
}
