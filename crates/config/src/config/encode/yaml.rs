//! A small YAML writer: block style, two spaces, lists not indented below their key, Go's choice of quotes.

use std::collections::BTreeMap;

use crate::config::tree::{Scalar, resolve};
use crate::go::quoted;

/// A value to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// A word that needs no more thought.
    Scalar(String),
    /// Text of several lines.
    Block(String),
    /// A list.
    List(Vec<Out>),
    /// A map, by key.
    Map(BTreeMap<String, Out>),
}

impl Out {
    /// A text, in whichever form keeps it a text.
    pub fn text(text: &str) -> Self {
        if text.contains('\n') && block_is_possible(text) {
            Self::Block(text.to_owned())
        } else {
            Self::Scalar(plain_or_quoted(text))
        }
    }

    /// The document.
    pub fn render(&self) -> String {
        let mut text = String::new();
        match self {
            Self::Map(map) => write_map(&mut text, map, 0),
            other => write_value(&mut text, other, 0),
        }
        text
    }
}

fn indent(text: &mut String, depth: usize) {
    text.extend(std::iter::repeat_n("  ", depth));
}

fn write_map(text: &mut String, map: &BTreeMap<String, Out>, depth: usize) {
    for (index, (key, value)) in map.iter().enumerate() {
        if index > 0 || depth > 0 && text.ends_with('\n') {
            indent(text, depth);
        }
        text.push_str(&plain_or_quoted(key));
        text.push(':');
        write_value(text, value, depth);
    }
}

/// Writes what follows a key's colon or a list's dash, up to and with the line's end.
fn write_value(text: &mut String, value: &Out, depth: usize) {
    match value {
        Out::Scalar(word) => {
            text.push(' ');
            text.push_str(word);
            text.push('\n');
        }
        Out::Block(lines) => write_block(text, lines, depth),
        Out::List(list) if list.is_empty() => text.push_str(" []\n"),
        Out::Map(map) if map.is_empty() => text.push_str(" {}\n"),
        Out::List(list) => {
            text.push('\n');
            for item in list {
                indent(text, depth);
                text.push('-');
                write_item(text, item, depth);
            }
        }
        Out::Map(map) => {
            text.push('\n');
            write_map(text, map, depth + 1);
        }
    }
}

/// A map inside a list starts on the dash's own line.
fn write_item(text: &mut String, item: &Out, depth: usize) {
    match item {
        Out::Map(map) if !map.is_empty() => {
            text.push(' ');
            write_map(text, map, depth + 1);
        }
        other => write_value(text, other, depth + 1),
    }
}

fn write_block(text: &mut String, lines: &str, depth: usize) {
    let keep = if lines.ends_with("\n\n") {
        "+"
    } else if lines.ends_with('\n') {
        ""
    } else {
        "-"
    };
    text.push_str(" |");
    text.push_str(keep);
    text.push('\n');
    for line in lines.strip_suffix('\n').unwrap_or(lines).split('\n') {
        if !line.is_empty() {
            indent(text, depth + 1);
            text.push_str(line);
        }
        text.push('\n');
    }
}

/// Whether the lines read back as they are from a literal block.
fn block_is_possible(text: &str) -> bool {
    let printable = text.chars().all(|c| c == '\n' || !c.is_control());
    printable && !text.starts_with([' ', '\n']) && !text.ends_with(' ') && !text.contains(" \n")
}

/// The text as one YAML word: bare if it stays a text that way, else in single or double quotes.
pub fn plain_or_quoted(text: &str) -> String {
    if resolve(text) != Scalar::Text || resembles_time(text) {
        return quoted(text);
    }
    if text.chars().any(char::is_control) {
        return quoted(text);
    }
    if plain_is_possible(text) { text.to_owned() } else { format!("'{}'", text.replace('\'', "''")) }
}

/// Words YAML 1.1 readers take for dates or for numbers in base 60.
fn resembles_time(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let base_60 = text.trim_start_matches(['+', '-']).split(':').collect::<Vec<_>>();
    let sixties =
        |part: &&str| is_number(part) && part.len() <= 2 && part.parse::<u8>().is_ok_and(|n| n < 60);
    let is_base_60 = match base_60.as_slice() {
        [first, rest @ ..] if !rest.is_empty() => is_number(first) && rest.iter().all(sixties),
        _ => false,
    };
    let day = text.split(['T', 't', ' ']).next().unwrap_or(text);
    let date: Vec<&str> = day.split('-').collect();
    let is_date =
        matches!(date.as_slice(), [y, m, d] if y.len() == 4 && [y, m, d].iter().all(|part| is_number(part)));
    is_base_60 || is_date
}

fn plain_is_possible(text: &str) -> bool {
    let Some(first) = text.chars().next() else { return false };
    let second = text[first.len_utf8()..].chars().next();
    let before_gap = second.is_none_or(|c| c == ' ');
    let bad_start = matches!(
        first,
        '#' | ',' | '[' | ']' | '{' | '}' | '&' | '*' | '!' | '|' | '>' | '\'' | '"' | '%' | '@' | '`' | ' '
    ) || matches!(first, '?' | ':' | '-') && before_gap
        || text.starts_with("---")
        || text.starts_with("...");
    let bad_inside = text.contains(": ") || text.contains(" #") || text.ends_with([' ', ':']);
    !bad_start && !bad_inside
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::config::tree::{Content, parse};

    #[test]
    fn quotes_as_go_does() {
        for (text, written) in [
            ("", "\"\""),
            ("0.0.0.0", "0.0.0.0"),
            ("5", "\"5\""),
            ("yes", "\"yes\""),
            ("1:30", "\"1:30\""),
            ("2001-01-01", "\"2001-01-01\""),
            ("  A ", "'  A '"),
            ("[::]:10256", "'[::]:10256'"),
            ("::1", "::1"),
            ("::", "'::'"),
            ("it's", "it's"),
            ("=", "="),
            ("<<", "<<"),
            ("a: b", "'a: b'"),
            ("10.0.0.0/8,fd00::/64", "10.0.0.0/8,fd00::/64"),
        ] {
            assert_eq!(plain_or_quoted(text), written, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_text_reads_back_as_itself(text in "(?s)[-a-z0-9:#'\"\\[\\]{}&*!|>%@` \n.,?/éy~]{0,24}") {
            let map = Out::Map([("k".to_owned(), Out::text(&text))].into());
            let read = parse(map.render().as_bytes());
            let Ok(Content::Map(entries)) = read.map(|node| node.content) else {
                return Err(TestCaseError::fail("does not read back"));
            };
            prop_assert_eq!(&entries[0].value.content, &Content::Text(text));
        }
    }
}
