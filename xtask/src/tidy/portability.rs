//! Text that ties the repository to the machine it was written on: private folders, package hosts.
//!
//! Packages are named, never addressed; paths are relative to the repository or come from the environment.

use crate::finding::Finding;
use crate::tree::SourceFile;

/// A text that must not appear, and what to write instead.
struct Banned {
    text: &'static str,
    kind: Kind,
}

enum Kind {
    /// An absolute path; the same text further inside a path is harmless.
    Folder,
    Host,
}

// Written in halves, so that this file does not find itself.
const BANNED: [Banned; 15] = [
    Banned { text: concat!("/wo", "rk/"), kind: Kind::Folder },
    Banned { text: concat!("/ro", "ot/"), kind: Kind::Folder },
    Banned { text: concat!("/ho", "me/"), kind: Kind::Folder },
    Banned { text: concat!("/Us", "ers/"), kind: Kind::Folder },
    Banned { text: concat!("arti", "factory"), kind: Kind::Host },
    Banned { text: concat!("index.cra", "tes.io"), kind: Kind::Host },
    Banned { text: concat!("static.cra", "tes.io"), kind: Kind::Host },
    Banned { text: concat!("proxy.go", "lang.org"), kind: Kind::Host },
    Banned { text: concat!("sum.go", "lang.org"), kind: Kind::Host },
    Banned { text: concat!("registry.npm", "js.org"), kind: Kind::Host },
    Banned { text: concat!("py", "pi.org"), kind: Kind::Host },
    Banned { text: concat!("files.python", "hosted.org"), kind: Kind::Host },
    Banned { text: concat!("deb.deb", "ian.org"), kind: Kind::Host },
    Banned { text: concat!("repo1.ma", "ven.org"), kind: Kind::Host },
    Banned { text: concat!("repo.ma", "ven.apache.org"), kind: Kind::Host },
];

/// Every line with such a word.
pub fn findings(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        for (number, line) in file.numbered_lines() {
            let banned = BANNED.iter().filter(|banned| banned.is_in(line));
            findings.extend(banned.map(|banned| Finding::new(&file.path, number, banned.advice())));
        }
    }
    findings
}

impl Banned {
    fn is_in(&self, line: &str) -> bool {
        match self.kind {
            Kind::Folder => line.match_indices(self.text).any(|(at, _)| begins_a_path(&line[..at])),
            Kind::Host => line.to_ascii_lowercase().contains(self.text),
        }
    }

    fn advice(&self) -> String {
        match self.kind {
            Kind::Folder => format!("`{}` is a folder of one machine; use a relative path", self.text),
            Kind::Host => {
                format!("`{}` is a package host; name the package, not where it comes from", self.text)
            }
        }
    }
}

fn begins_a_path(before: &str) -> bool {
    !before.ends_with(|letter: char| letter.is_alphanumeric() || "_-.~})]*".contains(letter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found_in(text: &str) -> usize {
        findings(&[SourceFile { path: "a.md".to_owned(), text: text.to_owned() }]).len()
    }

    #[test]
    fn every_banned_word_is_found() {
        for banned in BANNED {
            assert_eq!(found_in(&format!("see `{}x` there\n", banned.text)), 1, "{}", banned.text);
            assert_eq!(found_in(&format!("{}x\n", banned.text)), 1, "{}", banned.text);
        }
    }

    #[test]
    fn hosts_are_found_in_any_case() {
        assert_eq!(found_in(&format!("https://{}/x\n", BANNED[4].text.to_uppercase())), 1);
    }

    #[test]
    fn the_same_text_inside_a_longer_path_passes() {
        for before in ["net", "$HOME", "${TMPDIR}", "..", "~"] {
            assert_eq!(found_in(&format!("{before}{}x\n", BANNED[0].text)), 0, "{before}");
        }
    }
}
