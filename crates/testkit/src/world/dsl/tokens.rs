//! Splits a line into words.

/// The words of one line, read from left to right. `#` starts a comment; quotes join several words to one.
#[derive(Clone, Debug)]
pub(in crate::world) struct Tokens<'a> {
    rest: std::vec::IntoIter<&'a str>,
}

impl<'a> Tokens<'a> {
    pub(in crate::world) fn new(line: &'a str) -> Self {
        let mut words = Vec::new();
        let mut rest = line.trim_start();
        while !rest.is_empty() && !rest.starts_with('#') {
            let (word, after) = first_word(rest);
            words.push(word);
            rest = after.trim_start();
        }
        Self { rest: words.into_iter() }
    }

    pub(in crate::world) fn is_empty(&self) -> bool {
        self.rest.as_slice().is_empty()
    }

    pub(in crate::world) fn next(&mut self) -> Option<&'a str> {
        self.rest.next()
    }

    pub(in crate::world) fn peek(&self) -> Option<&'a str> {
        self.rest.as_slice().first().copied()
    }

    /// The next word; an error at the end of the line.
    pub(in crate::world) fn value(&mut self, what: &str) -> Result<&'a str, String> {
        self.next().ok_or_else(|| format!("{what} is missing at the end of the line"))
    }

    /// The next word, split at commas.
    pub(in crate::world) fn list(&mut self, what: &str) -> Result<Vec<String>, String> {
        Ok(self.value(what)?.split(',').map(str::to_string).collect())
    }

    /// The next word as a number. Any whole number: stories may be about invalid ones.
    pub(in crate::world) fn number(&mut self, what: &str) -> Result<i64, String> {
        let text = self.value(what)?;
        text.parse().map_err(|_| format!("{what} should be a number, not \"{text}\""))
    }

    /// An error if words are left.
    pub(in crate::world) fn finish(&mut self) -> Result<(), String> {
        match self.next() {
            Some(word) => Err(format!("unexpected \"{word}\"")),
            None => Ok(()),
        }
    }
}

fn first_word(text: &str) -> (&str, &str) {
    if let Some(quoted) = text.strip_prefix('"')
        && let Some(end) = quoted.find('"')
    {
        return (&quoted[..end], &quoted[end + 1..]);
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    text.split_at(end)
}

/// `namespace/name`; the namespace is `default` unless stated.
pub(in crate::world) fn namespaced(name: &str) -> String {
    if name.contains('/') { name.to_string() } else { format!("default/{name}") }
}

/// The two halves of [`namespaced`].
pub(in crate::world) fn namespace_and_name(name: &str) -> (String, String) {
    let full = namespaced(name);
    let (namespace, name) = full.split_once('/').unwrap_or(("default", &full));
    (namespace.to_string(), name.to_string())
}
