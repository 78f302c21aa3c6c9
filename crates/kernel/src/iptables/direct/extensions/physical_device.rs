//! `-m physdev`: the port of a bridge that a packet came in by or leaves by.

use std::borrow::Cow;

use super::{Extension, print_sign};
use crate::iptables::direct::expressions::{ExtensionName, matching};
use crate::iptables::direct::option::OptionCall;
use crate::iptables::direct::print::print_name;
use crate::iptables::direct::structure::{Structure, byte, field, text};
use crate::iptables::direct::{Context, Negatable, RuleError};
use crate::netlink::Writer;
use crate::nft::Family;

const SIZE: usize = 72;
const NAME_LENGTH: usize = 16;
const INPUT: usize = 0;
const OUTPUT: usize = 32;
const NEGATED: usize = 64;
const MATCHED: usize = 65;
const BY_INPUT: u8 = 1;
const BY_OUTPUT: u8 = 2;
const IS_IN: u8 = 8;
const IS_OUT: u8 = 16;

/// What is asked about the port.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhysicalDevice<'a> {
    /// `--physdev-is-in`: came in by a port; the value says whether it is negated.
    pub is_in: Option<bool>,
    /// `--physdev-is-out`: leaves by a port.
    pub is_out: Option<bool>,
    /// `--physdev-in`: the port's name; a trailing plus sign stands for any end.
    pub input: Option<Negatable<Cow<'a, str>>>,
    /// `--physdev-out`
    pub output: Option<Negatable<Cow<'a, str>>>,
}

impl<'a> PhysicalDevice<'a> {
    pub(super) fn decode(info: &'a [u8]) -> Option<Self> {
        let (negated, matched) = (byte(info, NEGATED)?, byte(info, MATCHED)?);
        if matched & !(BY_INPUT | BY_OUTPUT | IS_IN | IS_OUT) != 0 || matched == 0 {
            return None;
        }
        let flag = |flag: u8| (matched & flag != 0).then_some(negated & flag != 0);
        let name = |at: usize, by: u8| match flag(by) {
            Some(is_negated) => named(info, at).map(|value| Some(Negatable { is_negated, value })),
            None => Some(None),
        };
        Some(Self {
            is_in: flag(IS_IN),
            is_out: flag(IS_OUT),
            input: name(INPUT, BY_INPUT)?,
            output: name(OUTPUT, BY_OUTPUT)?,
        })
    }
}

impl<'a> Extension<'a> for PhysicalDevice<'a> {
    fn required(&self) -> &'static [&'static [&'static str]] {
        &[&["--physdev-is-in", "--physdev-is-out", "--physdev-in", "--physdev-out"]]
    }

    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        match call.name {
            "--physdev-is-in" => self.is_in = Some(call.is_negated),
            "--physdev-is-out" => self.is_out = Some(call.is_negated),
            "--physdev-in" => self.input = Some(named_port(call)?),
            "--physdev-out" => self.output = Some(named_port(call)?),
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn print(&self, _: Family, out: &mut String) {
        out.push_str("-m physdev");
        let sides = [
            (" --physdev-is-in", self.is_in, " --physdev-in ", &self.input),
            (" --physdev-is-out", self.is_out, " --physdev-out ", &self.output),
        ];
        for (option, is_negated, by_name, name) in sides {
            if let Some(is_negated) = is_negated {
                print_sign(is_negated, out);
                out.push_str(option);
            }
            if let Some(name) = name {
                print_sign(name.is_negated, out);
                out.push_str(by_name);
                print_name(&name.value, out);
            }
        }
    }

    fn put(&self, writer: &mut Writer, _: &Context<'_>) -> Result<(), RuleError> {
        let sign = |name: &Option<Negatable<Cow<'a, str>>>| name.as_ref().map(|name| name.is_negated);
        let flags = [
            (self.is_in, IS_IN),
            (self.is_out, IS_OUT),
            (sign(&self.input), BY_INPUT),
            (sign(&self.output), BY_OUTPUT),
        ];
        let (mut negated, mut matched) = (0, 0);
        for (sign, flag) in flags {
            matched |= if sign.is_some() { flag } else { 0 };
            negated |= if sign == Some(true) { flag } else { 0 };
        }
        let mut info = Structure::<SIZE>::new().with(NEGATED, &[negated, matched]);
        for (at, name) in [(INPUT, &self.input), (OUTPUT, &self.output)] {
            if let Some(name) = name {
                let mask = [0xff; NAME_LENGTH];
                let mask = mask.get(..compared_length(&name.value)).unwrap_or(&mask);
                info = info.with(at, name.value.as_bytes()).with(at + NAME_LENGTH, mask);
            }
        }
        matching(writer, ExtensionName { name: "physdev", revision: 0 }, info.as_bytes());
        Ok(())
    }
}

/// How many bytes are compared: without the plus sign, or with the zero that ends the name.
fn compared_length(name: &str) -> usize {
    if name.ends_with('+') { name.len() - 1 } else { name.len() + 1 }
}

fn named_port<'a>(call: &mut OptionCall<'_, 'a>) -> Result<Negatable<Cow<'a, str>>, RuleError> {
    let name = call.value()?;
    if name.is_empty() || name.len() >= NAME_LENGTH || name == "+" {
        return Err(call.bad(&name));
    }
    Ok(call.negatable(name))
}

fn named(info: &[u8], at: usize) -> Option<Cow<'_, str>> {
    let name = text(info, at, NAME_LENGTH)?;
    let mask: [u8; NAME_LENGTH] = field(info, at + NAME_LENGTH)?;
    let compared = compared_length(name);
    let is_plain = mask.iter().enumerate().all(|(at, byte)| *byte == if at < compared { 0xff } else { 0 });
    (is_plain && !name.is_empty() && name != "+").then_some(name.into())
}
