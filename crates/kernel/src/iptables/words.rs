//! A rule's words, and whether two texts mean the same rule.
//!
//! `iptables-save` does not show a rule as it was written: options stand in another order, addresses have prefix lengths,
//! marks and probabilities are spelled otherwise, defaults are added. [`RuleWords`] is what is left when none of that counts.

use std::net::IpAddr;

/// A rule in a form in which equal means equal.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuleWords {
    /// Each option with its values, sorted: no option of ours stands twice in a rule.
    clauses: Vec<Clause>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Clause {
    option: String,
    negated: bool,
    values: Vec<String>,
}

impl RuleWords {
    /// Of the text behind the name of the chain.
    pub fn of(text: &str) -> Self {
        let mut clauses: Vec<Clause> = Vec::new();
        let mut negated = false;
        for word in words(text) {
            let is_value = clauses.last().is_some_and(Clause::lacks_text);
            match word {
                Word::Bare(word) if word == "!" && !is_value => negated = true,
                Word::Bare(option) if option.starts_with('-') && option.len() > 1 && !is_value => {
                    let negated = std::mem::take(&mut negated);
                    clauses.push(Clause { option, negated, values: Vec::new() });
                }
                Word::Bare(value) | Word::Quoted(value) => match clauses.last_mut() {
                    Some(clause) => clause.values.push(value),
                    None => clauses.push(Clause { values: vec![value], ..Clause::default() }),
                },
            }
        }
        let mut clauses: Vec<Clause> = clauses.into_iter().filter_map(Clause::settled).collect();
        clauses.sort_unstable();
        Self { clauses }
    }

    /// The same rule without what is said about it.
    #[must_use]
    pub fn without_comment(mut self) -> Self {
        let is_comment = |clause: &Clause| {
            clause.option == "--comment" || clause.option == "-m" && clause.is(&["comment"])
        };
        self.clauses.retain(|clause| !is_comment(clause));
        self
    }

    /// Where packets that match go, if they go anywhere.
    pub fn target(&self) -> Option<&str> {
        let target = self.clauses.iter().find(|clause| clause.option == "-j" || clause.option == "-g");
        target.and_then(|clause| clause.values.first()).map(String::as_str)
    }
}

impl Clause {
    /// The same in its one spelling; nothing if it says what goes without saying.
    fn settled(mut self) -> Option<Self> {
        match self.option.as_str() {
            "-s" | "-d" => self.respell(with_prefix),
            "--mark" => self.respell(|value| masked(value, |_| u32::MAX)),
            "--xor-mark" => self.set_mark(|value| masked(value, |_| 0)),
            "--or-mark" => self.set_mark(|value| masked(value, |mark| mark)),
            "--set-xmark" => self.respell(|value| masked(value, |_| u32::MAX)),
            "--probability" => self.respell(probability),
            // Defaults, which are shown but need not be written.
            "--rsource" => return None,
            "--mask" if self.is(&["255.255.255.255", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"]) => {
                return None;
            }
            "--reject-with" if self.is(&["icmp-port-unreachable", "icmp6-port-unreachable"]) => return None,
            _ => {}
        }
        Some(self)
    }

    /// Whether what follows is a text somebody chose, and a value however much it looks like an option.
    fn lacks_text(&self) -> bool {
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

/// An address without a prefix length is one host.
fn with_prefix(value: &str) -> Option<String> {
    let address: IpAddr = value.parse().ok()?;
    Some(format!("{address}/{}", if address.is_ipv4() { 32 } else { 128 }))
}

/// A mark and its mask; the mask that is meant where there is none depends on the option.
fn masked(value: &str, unsaid: impl Fn(u32) -> u32) -> Option<String> {
    let number = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let (mark, bits) = match value.split_once('/') {
        Some((mark, bits)) => (number(mark)?, number(bits)?),
        None => (number(value)?, unsaid(number(value)?)),
    };
    Some(format!("{mark:#x}/{bits:#x}"))
}

/// The kernel keeps a probability as a number of 31 bits, and shows that.
fn probability(value: &str) -> Option<String> {
    const ONE: f64 = 2_147_483_648.0;
    let share: f64 = value.parse().ok()?;
    (0.0..=1.0).contains(&share).then(|| format!("{:.0}", (share * ONE).round()))
}

/// A word of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Word {
    /// As it stands.
    Bare(String),
    /// It stood in quotes, so it is a value whatever it looks like.
    Quoted(String),
}

/// The words of a rule's text. In quotes, a backslash takes the next character as it is.
pub fn words(text: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut characters = text.chars().peekable();
    while let Some(first) = characters.next() {
        if first.is_whitespace() {
            continue;
        }
        let mut word = String::new();
        if first == '"' {
            while let Some(character) = characters.next().filter(|character| *character != '"') {
                word.extend(if character == '\\' { characters.next() } else { Some(character) });
            }
            words.push(Word::Quoted(word));
        } else {
            word.push(first);
            while let Some(character) = characters.next_if(|character| !character.is_whitespace()) {
                word.push(character);
            }
            words.push(Word::Bare(word));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is written, and what `iptables-save` (1.8.9) shows of it.
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
    fn what_is_shown_is_what_was_written() {
        for (written, shown) in SHOWN {
            assert_eq!(RuleWords::of(written), RuleWords::of(shown), "{written}");
        }
    }

    #[test]
    fn rules_that_differ_are_told_apart() {
        let all: Vec<RuleWords> = SHOWN.iter().map(|(written, _)| RuleWords::of(written)).collect();
        for (at, one) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| one != other), "{one:?}");
        }
        assert_ne!(RuleWords::of("-s 10.0.0.1 -j X"), RuleWords::of("! -s 10.0.0.1 -j X"));
        assert_ne!(RuleWords::of("--comment \"-j X\""), RuleWords::of("--comment -j X"));
        assert_eq!(RuleWords::of("--comment \"-x/y\" -j X"), RuleWords::of("--comment -x/y -j X"));
        assert_eq!(RuleWords::of("! -i -x+ -j X"), RuleWords::of("! -i \"-x+\" -j X"));
        assert_ne!(RuleWords::of("-i -x -j X"), RuleWords::of("! -i -x -j X"));
        assert_eq!(RuleWords::of("-m tcp -j X").target(), Some("X"));
        assert_eq!(RuleWords::of("-m tcp").target(), None);
    }

    #[test]
    fn quotes_hold_words_together() {
        let found = words(r#"--comment "a \"b\" c" -j X"#);
        assert_eq!(found[1], Word::Quoted(r#"a "b" c"#.to_owned()));
        assert_eq!(found.len(), 4);
    }

    proptest! {
        #[test]
        fn any_text_has_words(text in ".{0,100}") {
            let _ = RuleWords::of(&text);
        }
    }
}
