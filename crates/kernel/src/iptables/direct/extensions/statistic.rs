//! `-m statistic --mode random`: matches a share of all packets.

use std::fmt::Write as _;

use super::{Extension, print_sign};
use crate::iptables::direct::expressions::{ExtensionName, matching};
use crate::iptables::direct::option::OptionCall;
use crate::iptables::direct::structure::{Structure, number, short};
use crate::iptables::direct::{Context, RuleError};
use crate::netlink::Writer;
use crate::nft::Family;

const SIZE: usize = 24;
const FLAGS: usize = 2;
const PROBABILITY: usize = 4;
const COUNT: usize = 12;
const MODE_RANDOM: u16 = 0;
const NEGATED: u16 = 1;
/// The kernel's one.
const ONE: f64 = 2_147_483_648.0;

/// The share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistic {
    /// Whether all other packets match.
    pub is_negated: bool,
    /// In units of 2⁻³¹.
    pub probability: u32,
}

impl Statistic {
    pub(super) fn decode(info: &[u8]) -> Option<Self> {
        let (mode, flags) = (short(info, 0)?, short(info, FLAGS)?);
        let is_known = mode == MODE_RANDOM && flags & !NEGATED == 0;
        let probability = number(info, PROBABILITY)?;
        is_known.then_some(Self { is_negated: flags & NEGATED != 0, probability })
    }
}

impl<'a> Extension<'a> for Statistic {
    fn required(&self) -> &'static [&'static [&'static str]] {
        &[&["--mode"], &["--probability"]]
    }

    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        match call.name {
            "--mode" => {
                call.plain()?;
                call.parsed(|mode| (mode == "random").then_some(()))?;
            }
            "--probability" => {
                self.is_negated = call.is_negated;
                self.probability = call.parsed(scaled)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    fn print(&self, _: Family, out: &mut String) {
        out.push_str("-m statistic --mode random");
        print_sign(self.is_negated, out);
        // Writing to memory does not fail.
        let _ = write!(out, " --probability {:.11}", f64::from(self.probability) / ONE);
    }

    fn put(&self, writer: &mut Writer, _: &Context<'_>) -> Result<(), RuleError> {
        let flags = if self.is_negated { NEGATED } else { 0 };
        let probability = self.probability.to_ne_bytes();
        let info = Structure::<SIZE>::new()
            .with(FLAGS, &flags.to_ne_bytes())
            .with(PROBABILITY, &probability)
            // Means nothing in this mode, but iptables works it out for all.
            .with(COUNT, &probability);
        matching(writer, ExtensionName { name: "statistic", revision: 0 }, info.as_bytes());
        Ok(())
    }
}

fn scaled(text: &str) -> Option<u32> {
    let share: f64 = text.parse().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 2^31")]
    (0.0..=1.0).contains(&share).then(|| (share * ONE).round() as u32)
}
