//! Lines of prose without the code in them, and phrases in them.

/// One line of a comment, a string or a page, in lower case and without code in backticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProseLine {
    pub number: usize,
    text: String,
}

impl ProseLine {
    pub fn new(number: usize, text: &str) -> Self {
        let mut prose = String::with_capacity(text.len());
        for (index, part) in text.split('`').enumerate() {
            // Odd parts are inside backticks. A placeholder keeps the words around them apart.
            prose.push_str(if index % 2 == 0 { part } else { " _ " });
        }
        let words: Vec<&str> = prose.split_whitespace().collect();
        Self { number, text: words.join(" ").to_lowercase() }
    }

    /// Whether a phrase starts in this line and ends in it or in the next.
    pub fn contains(&self, phrase: &str, next: Option<&Self>) -> bool {
        let next = next.map_or("", |next| next.text.as_str());
        let both = format!("{} {next}", self.text);
        both.match_indices(phrase).any(|(at, _)| {
            let (before, after) = (&both[..at], &both[at + phrase.len()..]);
            at < self.text.len() && !before.ends_with(is_word_part) && !after.starts_with(is_word_part)
        })
    }
}

/// A hyphen joins words: "ill-formed" is not "ill".
fn is_word_part(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '-'
}

/// The lines of a page that are not in a fenced block of code.
pub fn in_markdown(text: &str) -> Vec<ProseLine> {
    let mut is_code = false;
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if !is_code {
            lines.push(ProseLine::new(index + 1, line));
        }
    }
    lines
}
