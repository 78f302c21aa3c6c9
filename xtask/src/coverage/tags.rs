//! Finds the tags that tie a test to a row.
//!
//! In Rust, doc lines `/// Row: model S1, S4-S6` above a `#[test]` function, also inside a `proptest!` block, which
//! is why the text is read and not the syntax tree. In a story, the end of a line in a `packets` section:
//! `10.244.1.3   10.96.0.10:80   10.244.2.5:8080   # nftables N1, iptables I1`.

use std::path::Path;

use super::rows::{self, Row};
use crate::finding::Finding;
use crate::tree::SourceFile;

/// What holds a row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    Test { path: String, name: String },
    Story { path: String, name: String },
}

/// A row, what holds it, and the line that says so.
#[derive(Debug, PartialEq, Eq)]
pub struct Tag {
    pub row: Row,
    pub holder: Holder,
    pub path: String,
    pub line: usize,
}

/// The tags of one file, and the lines that resemble tags but are not valid.
#[derive(Debug, Default)]
pub struct Tags {
    pub tags: Vec<Tag>,
    pub findings: Vec<Finding>,
}

/// Tags on test functions.
pub fn in_rust(file: &SourceFile) -> Tags {
    let mut tags = Tags::default();
    let mut pending = Pending::default();
    for (number, line) in file.numbered_lines() {
        let line = line.trim();
        if let Some(list) = row_list(line) {
            pending.lists.push((number, list));
        } else if line.starts_with("#[") {
            pending.is_test |= line == "#[test]";
            pending.in_attribute = !line.ends_with(']');
        } else if pending.in_attribute {
            pending.in_attribute = !line.ends_with(']');
        } else if let Some(name) = function_name(line) {
            std::mem::take(&mut pending).settle(file, Some(name), &mut tags);
        } else if !line.starts_with("//") {
            std::mem::take(&mut pending).settle(file, None, &mut tags);
        }
    }
    pending.settle(file, None, &mut tags);
    tags
}

/// Tags seen above a function that has not come yet.
#[derive(Default)]
struct Pending<'a> {
    lists: Vec<(usize, &'a str)>,
    is_test: bool,
    in_attribute: bool,
}

impl Pending<'_> {
    fn settle(self, file: &SourceFile, name: Option<&str>, tags: &mut Tags) {
        for (line, list) in self.lists {
            match name {
                Some(name) if self.is_test => {
                    let holder = Holder::Test { path: file.path.clone(), name: name.to_owned() };
                    tags.add(file, line, list, &holder);
                }
                _ => {
                    let message = "a row tag that is on no test; put it in the docs of a `#[test]` function";
                    tags.findings.push(Finding::new(&file.path, line, message));
                }
            }
        }
    }
}

fn row_list(line: &str) -> Option<&str> {
    let words = line.strip_prefix("///")?.trim_start();
    words.strip_prefix("Row:").or_else(|| words.strip_prefix("Rows:"))
}

fn function_name(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    let qualifiers = ["", "pub", "pub(crate)", "pub(super)", "async", "const", "unsafe"];
    let declares = before.split(' ').all(|word| qualifiers.contains(&word));
    let end = after.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(after.len());
    if declares && end > 0 { Some(&after[..end]) } else { None }
}

/// Tags on lines of packets.
pub fn in_story(file: &SourceFile) -> Tags {
    let mut tags = Tags::default();
    let within = file.path.strip_prefix("stories/").unwrap_or(&file.path);
    let name = Path::new(within).with_extension("").to_string_lossy().into_owned();
    let holder = Holder::Story { path: file.path.clone(), name };
    let mut in_packets = false;
    for (number, line) in file.numbered_lines() {
        if let Some(heading) = line.strip_prefix("-- ") {
            in_packets = heading.split([' ', ':']).next() == Some("packets");
        } else if in_packets
            && !line.starts_with('#')
            && let Some((_, comment)) = line.split_once(" # ")
            && looks_like_rows(comment)
        {
            tags.add(file, number, comment, &holder);
        }
    }
    tags
}

/// A word and then something with a digit right behind it, so that a remark in prose is left alone.
fn looks_like_rows(comment: &str) -> bool {
    let mut words = comment.split_whitespace();
    let is_spec = |word: &str| word.chars().all(|letter| letter.is_ascii_lowercase());
    let is_id = |word: &str| word.chars().take(3).any(|letter| letter.is_ascii_digit());
    words.next().is_some_and(is_spec) && words.next().is_some_and(is_id)
}

impl Tags {
    fn add(&mut self, file: &SourceFile, line: usize, list: &str, holder: &Holder) {
        let path = file.path.clone();
        match rows::parse_list(list) {
            Ok(rows) => self.tags.extend(rows.into_iter().map(|row| Tag {
                row,
                holder: holder.clone(),
                path: path.clone(),
                line,
            })),
            Err(why) => self.findings.push(Finding { path, line, message: why }),
        }
    }
}

#[cfg(test)]
mod tests;
