//! `-m recent`: remembers addresses in a named list, and matches those it remembers.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::net::IpAddr;

use super::{Extension, print_sign};
use crate::iptables::direct::expressions::{ExtensionName, matching};
use crate::iptables::direct::option::OptionCall;
use crate::iptables::direct::print::{address_bytes, print_address};
use crate::iptables::direct::structure::{Structure, byte, field, is_word, name, number};
use crate::iptables::direct::{Context, RuleError};
use crate::netlink::Writer;
use crate::nft::Family;

const SIZE: usize = 232;
const HITS: usize = 4;
const CHECK: usize = 8;
const NEGATED: usize = 9;
const NAME: usize = 10;
const NAME_LENGTH: usize = 200;
const SIDE: usize = 210;
const MASK: usize = 212;
const REAP: u8 = 32;
const ACTIONS: [&str; 4] = ["--set", "--rcheck", "--update", "--remove"];
const DEFAULT_NAME: &str = "DEFAULT";

/// A list, and what is done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recent<'a> {
    /// The list.
    pub name: Cow<'a, str>,
    /// Whether a packet matches if the action says no.
    pub is_negated: bool,
    /// What is done.
    pub action: RecentAction,
    /// Only entries that are no older than this count; zero for all.
    pub seconds: u32,
    /// Only entries seen so often count; zero for all.
    pub hits: u32,
    /// Older entries are removed.
    pub reap: bool,
    /// The address that is remembered.
    pub side: Side,
    /// The bits of the address that count; IPv4 addresses use the first four bytes.
    pub mask: [u8; 16],
}

/// What is done with the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum RecentAction {
    /// `--rcheck`: matches if the address is in the list.
    Check = 1,
    /// `--set`: puts the address in the list.
    Set = 2,
    /// `--update`: the same as a check, and the entry is new again.
    Update = 4,
    /// `--remove`: takes it out of the list.
    Remove = 8,
}

/// An address of the packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Side {
    /// `--rsource`
    Source = 0,
    /// `--rdest`
    Destination = 1,
}

impl Default for Recent<'_> {
    fn default() -> Self {
        Self {
            name: DEFAULT_NAME.into(),
            is_negated: false,
            action: RecentAction::Check,
            seconds: 0,
            hits: 0,
            reap: false,
            side: Side::Source,
            mask: [0xff; 16],
        }
    }
}

impl<'a> Recent<'a> {
    pub(super) fn decode(info: &'a [u8], family: Family) -> Option<Self> {
        let check = byte(info, CHECK)?;
        let action = match check & !REAP {
            1 => RecentAction::Check,
            2 => RecentAction::Set,
            4 => RecentAction::Update,
            8 => RecentAction::Remove,
            _ => return None,
        };
        let side = match byte(info, SIDE)? {
            0 => Side::Source,
            1 => Side::Destination,
            _ => return None,
        };
        Some(Self {
            name: name(info, NAME, NAME_LENGTH)?.into(),
            is_negated: byte(info, NEGATED)? != 0,
            action,
            seconds: number(info, 0)?,
            hits: number(info, HITS)?,
            reap: check & REAP != 0,
            side,
            mask: normalised(field(info, MASK)?, family),
        })
    }

    fn act(&mut self, call: &OptionCall<'_, 'a>, action: RecentAction) -> Result<(), RuleError> {
        call.excludes(&ACTIONS)?;
        (self.action, self.is_negated) = (action, call.is_negated);
        Ok(())
    }

    fn set_mask(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<(), RuleError> {
        self.mask = match (call.family, call.number::<IpAddr>()?) {
            (family, mask) if mask.is_ipv4() == (family == Family::Ip) => {
                normalised(address_bytes(mask), family)
            }
            (_, mask) => return Err(call.bad(&mask.to_string())),
        };
        Ok(())
    }
}

impl<'a> Extension<'a> for Recent<'a> {
    fn required(&self) -> &'static [&'static [&'static str]] {
        &[&ACTIONS]
    }

    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        match call.name {
            "--set" => self.act(call, RecentAction::Set)?,
            "--rcheck" => self.act(call, RecentAction::Check)?,
            "--update" => self.act(call, RecentAction::Update)?,
            "--remove" => self.act(call, RecentAction::Remove)?,
            "--seconds" | "--hitcount" | "--reap" | "--name" | "--mask" | "--rsource" | "--rdest" => {
                call.plain()?;
                self.modify(call)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn print(&self, family: Family, out: &mut String) {
        out.push_str("-m recent");
        print_sign(self.is_negated, out);
        out.push_str(match self.action {
            RecentAction::Check => " --rcheck",
            RecentAction::Set => " --set",
            RecentAction::Update => " --update",
            RecentAction::Remove => " --remove",
        });
        // Writing to memory does not fail.
        if self.seconds > 0 {
            let _ = write!(out, " --seconds {}", self.seconds);
        }
        if self.reap {
            out.push_str(" --reap");
        }
        if self.hits > 0 {
            let _ = write!(out, " --hitcount {}", self.hits);
        }
        let _ = write!(out, " --name {} --mask ", self.name);
        print_address(&self.mask, family, out);
        out.push_str(match self.side {
            Side::Source => " --rsource",
            Side::Destination => " --rdest",
        });
    }

    fn put(&self, writer: &mut Writer, _: &Context<'_>) -> Result<(), RuleError> {
        let reap = if self.reap { REAP } else { 0 };
        let info = Structure::<SIZE>::new()
            .with(0, &self.seconds.to_ne_bytes())
            .with(HITS, &self.hits.to_ne_bytes())
            .with(CHECK, &[self.action as u8 | reap, u8::from(self.is_negated)])
            // iptables writes the name over its default, whose end remains.
            .with(NAME, DEFAULT_NAME.as_bytes())
            .with(NAME, self.name.as_bytes())
            .with(NAME + self.name.len(), &[0])
            .with(SIDE, &[self.side as u8])
            .with(MASK, &self.mask);
        matching(writer, ExtensionName { name: "recent", revision: 1 }, info.as_bytes());
        Ok(())
    }
}

impl<'a> Recent<'a> {
    fn modify(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<(), RuleError> {
        match call.name {
            "--seconds" => self.seconds = call.parsed(positive)?,
            "--hitcount" => self.hits = call.parsed(positive)?,
            "--reap" => self.reap = true,
            "--mask" => self.set_mask(call)?,
            "--name" => {
                let name = call.value()?;
                let is_name = is_word(&name) && name.len() < NAME_LENGTH && !name.contains('/');
                if !is_name {
                    return Err(call.bad(&name));
                }
                self.name = name;
            }
            "--rsource" => {
                call.excludes(&["--rdest"])?;
                self.side = Side::Source;
            }
            _ => {
                call.excludes(&["--rsource"])?;
                self.side = Side::Destination;
            }
        }
        Ok(())
    }
}

/// Behind a mask for IPv4 iptables leaves zeros if it was given, and ones if it is the default.
fn normalised(mask: [u8; 16], family: Family) -> [u8; 16] {
    match (family, mask) {
        (Family::Ip, [0xff, 0xff, 0xff, 0xff, ..]) => [0xff; 16],
        (Family::Ip, [first, second, third, fourth, ..]) => {
            address_bytes(IpAddr::from([first, second, third, fourth]))
        }
        (Family::Ip6, mask) => mask,
    }
}

fn positive(text: &str) -> Option<u32> {
    text.parse().ok().filter(|number| *number > 0)
}
