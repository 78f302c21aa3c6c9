//! Whether two texts mean the same rule.
//!
//! `iptables-save` does not print a rule as it was written: the order of options differs, addresses have prefix lengths,
//! marks and probabilities are formatted differently, defaults are added. [`CanonicalRule`] normalises all of that.

use std::net::IpAddr;

/// A rule in canonical form: two texts of one rule are equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CanonicalRule {
    /// Each option with its values, sorted: no rule of ours repeats an option.
    clauses: Vec<Clause>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Clause {
    option: String,
    negated: bool,
    values: Vec<String>,
}

impl CanonicalRule {
    /// Parses the text behind the name of the chain.
    pub fn parse(text: &str) -> Self {
        let mut clauses: Vec<Clause> = Vec::new();
        let mut negated = false;
        for token in tokens(text) {
            let is_value = clauses.last().is_some_and(Clause::expects_text);
            match token {
                Token::Bare(text) if text == "!" && !is_value => negated = true,
                Token::Bare(option) if option.starts_with('-') && option.len() > 1 && !is_value => {
                    let negated = std::mem::take(&mut negated);
                    clauses.push(Clause { option, negated, values: Vec::new() });
                }
                Token::Bare(value) | Token::Quoted(value) => match clauses.last_mut() {
                    Some(clause) => clause.values.push(value),
                    None => clauses.push(Clause { values: vec![value], ..Clause::default() }),
                },
            }
        }
        let mut clauses: Vec<Clause> = clauses.into_iter().filter_map(Clause::normalised).collect();
        clauses.sort_unstable();
        Self { clauses }
    }

    /// The rule without its comment.
    #[must_use]
    pub fn without_comment(mut self) -> Self {
        let is_comment = |clause: &Clause| {
            clause.option == "--comment" || clause.option == "-m" && clause.is(&["comment"])
        };
        self.clauses.retain(|clause| !is_comment(clause));
        self
    }

    /// The target of a jump or goto, if the rule has one.
    pub fn target(&self) -> Option<&str> {
        let target = self.clauses.iter().find(|clause| clause.option == "-j" || clause.option == "-g");
        target.and_then(|clause| clause.values.first()).map(String::as_str)
    }
}

impl Clause {
    /// The clause in its canonical spelling; `None` if it states a default.
    fn normalised(mut self) -> Option<Self> {
        match self.option.as_str() {
            "-s" | "-d" => self.respell(with_prefix),
            "--mark" => self.respell(|value| masked(value, |_| u32::MAX)),
            "--xor-mark" => self.set_mark(|value| masked(value, |_| 0)),
            "--or-mark" => self.set_mark(|value| masked(value, |mark| mark)),
            "--set-xmark" => self.respell(|value| masked(value, |_| u32::MAX)),
            "--probability" => self.respell(probability),
            "--vproto" => self.respell(protocol_number),
            // Defaults, which are printed but need not be written.
            "--rsource" => return None,
            "--mask" if self.is(&["255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]) => {
                return None;
            }
            "--reject-with" if self.is(&["icmp-port-unreachable", "icmp6-port-unreachable"]) => return None,
            _ => {}
        }
        Some(self)
    }

    /// Whether the next token is free text, a value however much it looks like an option.
    fn expects_text(&self) -> bool {
        matches!(self.option.as_str(), "--comment" | "-i" | "-o") && self.values.is_empty()
    }

    fn is(&self, values: &[&str]) -> bool {
        matches!(&self.values[..], [value] if values.contains(&value.as_str()))
    }

    fn set_mark(&mut self, spell: impl Fn(&str) -> Option<String>) {
        "--set-xmark".clone_into(&mut self.option);
        self.respell(spell);
    }

    fn respell(&mut self, spell: impl Fn(&str) -> Option<String>) {
        for value in &mut self.values {
            if let Some(spelled) = spell(value) {
                *value = spelled;
            }
        }
    }
}

/// A protocol that is written by its name and printed as a number.
fn protocol_number(value: &str) -> Option<String> {
    let number = match value {
        "tcp" => "6",
        "udp" => "17",
        "sctp" => "132",
        _ => return None,
    };
    Some(number.to_owned())
}

/// An address without a prefix length is one host.
fn with_prefix(value: &str) -> Option<String> {
    let address: IpAddr = value.parse().ok()?;
    Some(format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 }))
}

/// A mark and its mask; the default mask depends on the option.
fn masked(value: &str, default_mask: impl Fn(u32) -> u32) -> Option<String> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let (mark, bits) = match value.split_once('/') {
        Some((mark, bits)) => (number(mark)?, number(bits)?),
        None => (number(value)?, default_mask(number(value)?)),
    };
    Some(format!("{mark:#x}/{bits:#x}"))
}

/// The kernel keeps a probability as a 31-bit integer, and prints that.
fn probability(value: &str) -> Option<String> {
    const ONE: f64 = 2_147_483_648.0;
    let share: f64 = value.parse().ok()?;
    (0.0..=1.0).contains(&share).then(|| format!("{:.0}", (share * ONE).round()))
}

/// A token of a rule's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    /// Without quotes.
    Bare(String),
    /// In quotes, so it is a value whatever it looks like.
    Quoted(String),
}

/// Splits a rule's text. In quotes, a backslash escapes the next character.
pub fn tokens(text: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut characters = text.chars().peekable();
    while let Some(first) = characters.next() {
        if first.is_whitespace() {
            continue;
        }
        let mut token = String::new();
        if first == '"' {
            while let Some(character) = characters.next().filter(|character| *character != '"') {
                token.extend(if character == '\\' { characters.next() } else { Some(character) });
            }
            tokens.push(Token::Quoted(token));
        } else {
            token.push(first);
            while let Some(character) = characters.next_if(|character| !character.is_whitespace()) {
                token.push(character);
            }
            tokens.push(Token::Bare(token));
        }
    }
    tokens
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is written, and what `iptables-save` (1.8.9) prints.
    const SHOWN: &[(&str, &str)] = &[
        (
            r#"-m comment --comment "shop/web:http cluster IP" -m tcp -p tcp -d 10.96.0.10 --dport 80 ! -s 10.244.0.0/16 -j KUBE-MARK-MASQ"#,
            r#"! -s 10.244.0.0/16 -d 10.96.0.10/32 -p tcp -m comment --comment "shop/web:http cluster IP" -m tcp --dport 80 -j KUBE-MARK-MASQ"#,
        ),
        ("-m mark ! --mark 0x00004000/0x00004000 -j RETURN", "-m mark ! --mark 0x4000/0x4000 -j RETURN"),
        ("-j MARK --xor-mark 0x00004000", "-j MARK --set-xmark 0x4000/0x0"),
        ("-j MARK --or-mark 0x00004000", "-j MARK --set-xmark 0x4000/0x4000"),
        (
            "-m statistic --mode random --probability 0.3333333333 -j KUBE-SEP-X",
            "-m statistic --mode random --probability 0.33333333349 -j KUBE-SEP-X",
        ),
        (
            "-m recent --name KUBE-SEP-X --rcheck --seconds 10800 --reap -j KUBE-SEP-X",
            "-m recent --rcheck --seconds 10800 --reap --name KUBE-SEP-X --mask 255.255.255.255 --rsource -j KUBE-SEP-X",
        ),
        ("-j REJECT", "-j REJECT --reject-with icmp-port-unreachable"),
        ("-s fd00::5 -j X", "-s fd00::5/128 -j X"),
    ];

    #[test]
    fn a_printed_rule_equals_the_written_one() {
        for (written, shown) in SHOWN {
            assert_eq!(CanonicalRule::parse(written), CanonicalRule::parse(shown), "{written}");
        }
    }

    #[test]
    fn different_rules_differ() {
        let all: Vec<CanonicalRule> =
            SHOWN.iter().map(|(written, _)| CanonicalRule::parse(written)).collect();
        for (at, one) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| one != other), "{one:?}");
        }
        assert_ne!(CanonicalRule::parse("-s 10.0.0.1 -j X"), CanonicalRule::parse("! -s 10.0.0.1 -j X"));
        assert_ne!(CanonicalRule::parse("--comment \"-j X\""), CanonicalRule::parse("--comment -j X"));
        assert_eq!(
            CanonicalRule::parse("--comment \"-x/y\" -j X"),
            CanonicalRule::parse("--comment -x/y -j X")
        );
        assert_eq!(CanonicalRule::parse("! -i -x+ -j X"), CanonicalRule::parse("! -i \"-x+\" -j X"));
        assert_ne!(CanonicalRule::parse("-i -x -j X"), CanonicalRule::parse("! -i -x -j X"));
        assert_eq!(CanonicalRule::parse("-m tcp -j X").target(), Some("X"));
        assert_eq!(CanonicalRule::parse("-m tcp").target(), None);
    }

    #[test]
    fn quotes_make_one_token() {
        let found = tokens(r#"--comment "a \"b\" c" -j X"#);
        assert_eq!(found[1], Token::Quoted(r#"a "b" c"#.to_owned()));
        assert_eq!(found.len(), 4);
    }

    proptest! {
        #[test]
        fn any_text_can_be_parsed(text in ".{0,100}") {
            let _ = CanonicalRule::parse(&text);
        }
    }
}
