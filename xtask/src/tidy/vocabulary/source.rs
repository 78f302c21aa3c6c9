//! Identifiers, comments and strings of product source, read from its tokens so that macros are covered too.

use std::ops::RangeInclusive;

use proc_macro2::{Literal, TokenStream, TokenTree};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};
use syn::{Attribute, ItemFn, ItemImpl, ItemMod};

use super::super::sizes::{is_cfg_test, is_test_code};
use super::prose::ProseLine;
use crate::tree::SourceFile;

/// What a file says outside of its tests.
#[derive(Debug, Default)]
pub struct Source {
    pub identifiers: Vec<Identifier>,
    pub prose: Vec<ProseLine>,
}

/// One use of a name.
#[derive(Debug)]
pub struct Identifier {
    pub name: String,
    pub line: usize,
}

impl Identifier {
    /// Whether `word` is one of the words that make up the name.
    pub fn has_word(&self, word: &str) -> bool {
        words_of(&self.name).iter().any(|part| part == word)
    }
}

/// Rust that is part of the program: no tests, no test kit, no tools.
pub fn is_product(file: &SourceFile) -> bool {
    let Some((name, inside)) = file.path.strip_prefix("crates/").and_then(|path| path.split_once('/')) else {
        return false;
    };
    let is_for_tests = matches!(name, "testkit" | "e2e");
    file.is_rust() && !is_for_tests && inside.starts_with("src/") && !is_test_code(&file.path)
}

/// Reads the names and the prose of a file.
pub fn scan(text: &str) -> syn::Result<Source> {
    let mut tests = TestLines::default();
    tests.visit_file(&syn::parse_file(text)?);
    let tokens: TokenStream = text.parse()?;
    let mut scanner =
        Scanner { lines: text.lines().map(|line| line.chars().collect()).collect(), ..Scanner::default() };
    scanner.walk(tokens);
    let mut source = scanner.finish();
    source.identifiers.retain(|identifier| !tests.contains(identifier.line));
    source.prose.retain(|line| !tests.contains(line.number));
    Ok(source)
}

/// Collects names and strings, then finds comments in what is left.
#[derive(Default)]
struct Scanner {
    /// The text as characters, with strings blanked once they are read.
    lines: Vec<Vec<char>>,
    source: Source,
}

impl Scanner {
    fn walk(&mut self, tokens: TokenStream) {
        for token in tokens {
            match token {
                TokenTree::Group(group) => self.walk(group.stream()),
                TokenTree::Ident(identifier) => {
                    let (name, line) = (identifier.to_string(), identifier.span().start().line);
                    self.source.identifiers.push(Identifier { name, line });
                }
                TokenTree::Literal(literal) => self.read_literal(&literal),
                TokenTree::Punct(_) => {}
            }
        }
    }

    fn read_literal(&mut self, literal: &Literal) {
        let (start, end) = (literal.span().start(), literal.span().end());
        for number in start.line..=end.line {
            let Some(line) = number.checked_sub(1).and_then(|index| self.lines.get_mut(index)) else {
                return;
            };
            let from = if number == start.line { start.column } else { 0 }.min(line.len());
            let to = if number == end.line { end.column } else { line.len() }.clamp(from, line.len());
            // A doc comment is a literal too; it is read with the other comments.
            if line[from..to].starts_with(&['/', '/']) {
                return;
            }
            let text: String = line[from..to].iter().collect();
            self.source.prose.push(ProseLine::new(number, &text));
            line[from..to].fill(' ');
        }
    }

    fn finish(mut self) -> Source {
        for (index, line) in self.lines.iter().enumerate() {
            let comment = line.windows(2).position(|two| two == ['/', '/']);
            if let Some(start) = comment {
                let text: String = line[start..].iter().collect();
                let text = text.trim_start_matches(['/', '!']);
                self.source.prose.push(ProseLine::new(index + 1, text));
            }
        }
        self.source.prose.sort_by_key(|line| line.number);
        self.source
    }
}

/// The lines of items under `cfg(test)`.
#[derive(Default)]
struct TestLines(Vec<RangeInclusive<usize>>);

impl TestLines {
    fn contains(&self, line: usize) -> bool {
        self.0.iter().any(|range| range.contains(&line))
    }

    fn add(&mut self, attributes: &[Attribute], item: &impl Spanned) -> bool {
        let is_test = attributes.iter().any(is_cfg_test);
        if is_test {
            self.0.push(item.span().start().line..=item.span().end().line);
        }
        is_test
    }
}

impl<'ast> Visit<'ast> for TestLines {
    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !self.add(&item.attrs, item) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &'ast ItemFn) {
        self.add(&item.attrs, item);
    }

    fn visit_item_impl(&mut self, item: &'ast ItemImpl) {
        self.add(&item.attrs, item);
    }
}

/// The words of a name in snake, camel or capital case, in lower case.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut previous = '_';
    for letter in name.trim_start_matches("r#").chars() {
        if letter == '_' || (letter.is_uppercase() && !previous.is_uppercase()) {
            words.push(String::new());
        }
        if letter != '_'
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
        previous = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_split_into_words() {
        assert_eq!(words_of("look_again"), ["look", "again"]);
        assert_eq!(words_of("SyncOutcome"), ["sync", "outcome"]);
        assert_eq!(words_of("LOOK_WHEN_BLIND"), ["look", "when", "blind"]);
        assert_eq!(words_of("r#gateway"), ["gateway"]);
        assert_eq!(words_of("_"), [""; 0]);
    }

    #[test]
    fn product_source_is_what_the_program_is_made_of() {
        let is_product = |path: &str| is_product(&SourceFile { path: path.to_owned(), text: String::new() });
        assert!(is_product("crates/plan/src/planner.rs"));
        for path in [
            "crates/plan/src/planner/tests.rs",
            "crates/plan/tests/a.rs",
            "crates/ferrule/benches/a.rs",
            "crates/testkit/src/lib.rs",
            "crates/e2e/src/lib.rs",
            "crates/plan/Cargo.toml",
            "xtask/src/main.rs",
        ] {
            assert!(!is_product(path), "{path}");
        }
    }
}
