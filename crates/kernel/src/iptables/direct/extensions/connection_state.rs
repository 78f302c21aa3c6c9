//! `-m conntrack --ctstate` and `-m state --state`, which the kernel keeps alike.

use super::{Extension, print_sign};
use crate::iptables::direct::expressions::{ExtensionName, matching};
use crate::iptables::direct::option::OptionCall;
use crate::iptables::direct::structure::{Structure, short};
use crate::iptables::direct::{Context, RuleError};
use crate::netlink::Writer;
use crate::nft::Family;

const SIZE: usize = 168;
const MATCHED: usize = 146;
const NEGATED: usize = 148;
const STATES: usize = 150;
/// Flag: the states are matched.
const BY_STATE: u16 = 1;
/// Flag: written as `-m state`.
const STATE_ALIAS: u16 = 1 << 13;

/// Bits of the states, in the order in which iptables prints them.
const NAMES: [(&str, u16); 7] = [
    ("INVALID", 1),
    ("NEW", 8),
    ("RELATED", 4),
    ("ESTABLISHED", 2),
    ("UNTRACKED", 256),
    ("SNAT", 64),
    ("DNAT", 128),
];
/// Those that `-m state` has, too.
const OF_STATE: u16 = 1 | 2 | 4 | 8 | 256;

/// The states of a packet's connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionState {
    /// How it is spelled.
    pub spelling: Spelling,
    /// Whether all other states match.
    pub is_negated: bool,
    /// A bit for each state (`XT_CONNTRACK_STATE_*`).
    pub states: u16,
}

/// By which name the match goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spelling {
    /// `-m conntrack --ctstate`
    Conntrack,
    /// `-m state --state`
    State,
}

impl ConnectionState {
    pub(super) fn spelled(spelling: Spelling) -> Self {
        Self { spelling, is_negated: false, states: 0 }
    }

    pub(super) fn decode(info: &[u8]) -> Option<Self> {
        let (matched, negated) = (short(info, MATCHED)?, short(info, NEGATED)?);
        let states = short(info, STATES)?;
        let all: u16 = NAMES.iter().map(|(_, bit)| bit).sum();
        let is_known = matched & !STATE_ALIAS == BY_STATE && negated & !BY_STATE == 0;
        let spelling = if matched & STATE_ALIAS == 0 { Spelling::Conntrack } else { Spelling::State };
        let is_known = is_known && states & !all == 0 && states != 0;
        is_known.then_some(Self { spelling, is_negated: negated != 0, states })
    }

    fn option(self) -> &'static str {
        match self.spelling {
            Spelling::Conntrack => "--ctstate",
            Spelling::State => "--state",
        }
    }

    fn parse(self, text: &str) -> Option<u16> {
        let allowed = match self.spelling {
            Spelling::Conntrack => u16::MAX,
            Spelling::State => OF_STATE,
        };
        text.split(',').try_fold(0, |states, name| {
            let (_, bit) = NAMES.iter().find(|(known, bit)| *known == name && bit & allowed != 0)?;
            Some(states | bit)
        })
    }
}

impl<'a> Extension<'a> for ConnectionState {
    fn required(&self) -> &'static [&'static [&'static str]] {
        match self.spelling {
            Spelling::Conntrack => &[&["--ctstate"]],
            Spelling::State => &[&["--state"]],
        }
    }

    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        if call.name != self.option() {
            return Ok(false);
        }
        self.is_negated = call.is_negated;
        self.states = call.parsed(|text| self.parse(text))?;
        Ok(true)
    }

    fn print(&self, _: Family, out: &mut String) {
        out.push_str(match self.spelling {
            Spelling::Conntrack => "-m conntrack",
            Spelling::State => "-m state",
        });
        print_sign(self.is_negated, out);
        out.push(' ');
        out.push_str(self.option());
        let mut sign = ' ';
        for (name, _) in NAMES.iter().filter(|(_, bit)| self.states & bit != 0) {
            out.push(sign);
            out.push_str(name);
            sign = ',';
        }
    }

    fn put(&self, writer: &mut Writer, _: &Context<'_>) -> Result<(), RuleError> {
        let alias = if self.spelling == Spelling::State { STATE_ALIAS } else { 0 };
        let negated = if self.is_negated { BY_STATE } else { 0 };
        let info = Structure::<SIZE>::new()
            .with(MATCHED, &(BY_STATE | alias).to_ne_bytes())
            .with(NEGATED, &negated.to_ne_bytes())
            .with(STATES, &self.states.to_ne_bytes());
        matching(writer, ExtensionName { name: "conntrack", revision: 3 }, info.as_bytes());
        Ok(())
    }
}
