//! Parses a rule's text, as we write it and as `iptables-save` prints it.

use std::borrow::Cow;
use std::net::IpAddr;

use smallvec::SmallVec;

use super::super::Block;
use super::extensions::{Extension, PortProtocol, Ports, empty_match, empty_target};
use super::option::OptionCall;
use super::print::protocol_number;
use super::structure::is_printable;
use super::words::Words;
use super::{Match, Negatable, RuleError, Target, XtRule};
use crate::nft::Family;

/// The longest name of an interface.
const MAX_INTERFACE: usize = 15;
/// The kernel's limit for names of chains; iptables allows fewer characters.
const MAX_CHAIN: usize = 28;

impl<'a> XtRule<'a> {
    /// Parses the text behind the name of the chain.
    pub fn parse(text: &'a str, family: Family) -> Result<Self, RuleError> {
        if !is_printable(text) {
            return Err(RuleError::ControlCharacter);
        }
        let mut parser = Parser {
            words: Words::new(text),
            family,
            rule: Self::default(),
            taken: SmallVec::new(),
            taken_by_target: SmallVec::new(),
        };
        let mut is_negated = false;
        while let Some(word) = parser.words.next_word()? {
            match (word.text, word.is_quoted) {
                (Cow::Borrowed("!"), false) if !is_negated => is_negated = true,
                (Cow::Borrowed(option), false) if option.starts_with('-') => {
                    parser.option(option, std::mem::take(&mut is_negated))?;
                }
                (other, _) => return Err(RuleError::UnknownOption(other.into_owned())),
            }
        }
        if is_negated {
            return Err(RuleError::MissingValue("!".to_owned()));
        }
        parser.finish()
    }
}

/// The options that an extension has taken.
type Taken<'a> = SmallVec<[&'a str; 4]>;

struct Parser<'a> {
    words: Words<'a>,
    family: Family,
    rule: XtRule<'a>,
    /// For each match.
    taken: SmallVec<[Taken<'a>; 3]>,
    taken_by_target: Taken<'a>,
}

impl<'a> Parser<'a> {
    fn option(&mut self, name: &'a str, is_negated: bool) -> Result<(), RuleError> {
        let (family, words) = (self.family, &mut self.words);
        let mut call = OptionCall { name, is_negated, family, words, taken: &[] };
        let rule = &mut self.rule;
        match name {
            "-s" | "--source" => once(&mut rule.source, &mut call, block),
            "-d" | "--destination" => once(&mut rule.destination, &mut call, block),
            "-i" | "--in-interface" => once(&mut rule.input, &mut call, interface),
            "-o" | "--out-interface" => once(&mut rule.output, &mut call, interface),
            "-p" | "--protocol" => once(&mut rule.protocol, &mut call, protocol),
            "-m" | "--match" => {
                call.plain()?;
                let name = call.value()?;
                let found = empty_match(&name).ok_or_else(|| RuleError::UnknownMatch(name.into_owned()))?;
                self.add_match(found)
            }
            "-j" | "--jump" | "-g" | "--goto" => {
                call.plain()?;
                let chain = call.value()?;
                self.set_target(name, chain)
            }
            _ => self.extension_option(name, is_negated),
        }
    }

    fn add_match(&mut self, found: Match<'a>) -> Result<(), RuleError> {
        let is_repeated = |known: &Match<'a>| match (known, &found) {
            (Match::Ports(one), Match::Ports(other)) => one.protocol == other.protocol,
            _ => false,
        };
        if self.rule.matches.iter().any(is_repeated) {
            return Err(RuleError::Repeated("-m".to_owned()));
        }
        self.rule.matches.push(found);
        self.taken.push(SmallVec::new());
        Ok(())
    }

    fn set_target(&mut self, option: &str, name: Cow<'a, str>) -> Result<(), RuleError> {
        if self.rule.target != Target::None {
            return Err(RuleError::Repeated(option.to_owned()));
        }
        if !is_chain(&name) {
            return Err(RuleError::BadChain(name.into_owned()));
        }
        let is_jump = matches!(option, "-j" | "--jump");
        self.rule.target = match empty_target(&name, self.family) {
            Some(target) if is_jump => target,
            Some(_) => return Err(RuleError::BadChain(name.into_owned())),
            None if is_jump => Target::Jump(name),
            None => Target::Goto(name),
        };
        Ok(())
    }

    /// Offers an option to the matches, the latest first, and to the target.
    fn extension_option(&mut self, name: &'a str, is_negated: bool) -> Result<(), RuleError> {
        let (family, words) = (self.family, &mut self.words);
        for (part, taken) in self.rule.matches.iter_mut().zip(&mut self.taken).rev() {
            let mut call = OptionCall { name, is_negated, family, words, taken };
            if offered(part.extension_mut(), &mut call)? {
                return record(taken, name);
            }
        }
        let mut call = OptionCall { name, is_negated, family, words, taken: &self.taken_by_target };
        if offered(self.rule.target.extension_mut(), &mut call)? {
            return record(&mut self.taken_by_target, name);
        }
        self.implied_ports(name, is_negated)
    }

    /// Ports may be named with the protocol alone: `-p tcp --dport 80`.
    fn implied_ports(&mut self, name: &'a str, is_negated: bool) -> Result<(), RuleError> {
        let protocol = self.rule.protocol.filter(|protocol| !protocol.is_negated);
        let protocol = protocol.and_then(|protocol| PortProtocol::numbered(protocol.value));
        let has_ports = self.rule.matches.iter().any(|part| matches!(part, Match::Ports(_)));
        let is_port = matches!(name, "--sport" | "--dport" | "--source-port" | "--destination-port");
        match protocol {
            Some(protocol) if is_port && !has_ports => {
                self.add_match(Match::Ports(Ports::of(protocol)))?;
                self.extension_option(name, is_negated)
            }
            _ => Err(RuleError::UnknownOption(name.to_owned())),
        }
    }

    fn finish(self) -> Result<XtRule<'a>, RuleError> {
        for (part, taken) in self.rule.matches.iter().zip(&self.taken) {
            is_complete(part.extension(), taken)?;
        }
        is_complete(self.rule.target.extension(), &self.taken_by_target)?;
        let mut rule = self.rule;
        // What every packet has is no condition.
        rule.source = rule.source.filter(is_condition);
        rule.destination = rule.destination.filter(is_condition);
        rule.protocol = rule.protocol.filter(|protocol| protocol.value != 0);
        ports_need_protocol(&rule)?;
        Ok(rule)
    }
}

/// The kernel takes ports only together with their protocol.
fn ports_need_protocol(rule: &XtRule<'_>) -> Result<(), RuleError> {
    let protocol = rule.protocol.filter(|protocol| !protocol.is_negated);
    let protocol = protocol.and_then(|protocol| PortProtocol::numbered(protocol.value));
    let fits = |part: &Match<'_>| match part {
        Match::Ports(ports) => Some(ports.protocol) == protocol,
        _ => true,
    };
    if rule.matches.iter().all(fits) { Ok(()) } else { Err(RuleError::Incomplete("-p")) }
}

fn is_condition(block: &Negatable<Block>) -> bool {
    block.value.length > 0 || block.is_negated
}

fn offered<'a>(
    extension: Option<&mut dyn Extension<'a>>,
    call: &mut OptionCall<'_, 'a>,
) -> Result<bool, RuleError> {
    extension.map_or(Ok(false), |extension| extension.take(call))
}

fn record<'a>(taken: &mut Taken<'a>, name: &'a str) -> Result<(), RuleError> {
    if taken.contains(&name) {
        return Err(RuleError::Repeated(name.to_owned()));
    }
    taken.push(name);
    Ok(())
}

fn is_complete(extension: Option<&dyn Extension<'_>>, taken: &[&str]) -> Result<(), RuleError> {
    let required = extension.map_or(&[][..], |extension| extension.required());
    let is_there = |group: &[&str]| taken.iter().any(|name| group.contains(name));
    match required.iter().find(|group| !is_there(group)) {
        Some(group) => Err(RuleError::Incomplete(group.first().copied().unwrap_or_default())),
        None => Ok(()),
    }
}

/// Sets what may be there once.
fn once<'w, 'a, T>(
    place: &mut Option<Negatable<T>>,
    call: &mut OptionCall<'w, 'a>,
    parse: fn(&mut OptionCall<'w, 'a>) -> Result<T, RuleError>,
) -> Result<(), RuleError> {
    let value = parse(call)?;
    match place.replace(call.negatable(value)) {
        Some(_) => Err(RuleError::Repeated(call.name.to_owned())),
        None => Ok(()),
    }
}

/// An address, or a block of which the bits behind the prefix do not count.
fn block(call: &mut OptionCall<'_, '_>) -> Result<Block, RuleError> {
    let family = call.family;
    call.parsed(|text| {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, length.parse().ok()?),
            None => (text, family.address_bits()),
        };
        let address: IpAddr = address.parse().ok()?;
        let fits = address.is_ipv4() == (family == Family::Ip) && length <= family.address_bits();
        fits.then(|| Block { address: network(address, length), length })
    })
}

/// A protocol; zero stands for all of them, which cannot be negated.
fn protocol(call: &mut OptionCall<'_, '_>) -> Result<u8, RuleError> {
    match call.parsed(protocol_number)? {
        0 if call.is_negated => Err(RuleError::NotNegatable(call.name.to_owned())),
        number => Ok(number),
    }
}

/// Names of interfaces have nearly no rules.
fn interface<'a>(call: &mut OptionCall<'_, 'a>) -> Result<Cow<'a, str>, RuleError> {
    let name = call.value()?;
    // A lone plus sign would match every interface, and iptables has no encoding for it.
    let is_name = !name.is_empty() && name.len() <= MAX_INTERFACE && name != "+";
    if is_name { Ok(name) } else { Err(call.bad(&name)) }
}

/// The address without the bits behind the prefix.
pub(super) fn network(address: IpAddr, length: u8) -> IpAddr {
    let length = u32::from(length);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(length)).unwrap_or(0);
            IpAddr::V4((address.to_bits() & mask).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(length)).unwrap_or(0);
            IpAddr::V6((address.to_bits() & mask).into())
        }
    }
}

/// Whether a chain can have this name.
pub(super) fn is_chain(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\'' | b'\\');
    !name.is_empty() && name.len() <= MAX_CHAIN && !name.starts_with(['-', '!']) && name.bytes().all(is_plain)
}
