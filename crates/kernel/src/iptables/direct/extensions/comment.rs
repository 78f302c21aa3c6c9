//! `-m comment`: a text for the reader of the rules.

use std::borrow::Cow;

use super::Extension;
use crate::iptables::direct::expressions::{ExtensionName, matching};
use crate::iptables::direct::option::OptionCall;
use crate::iptables::direct::print::print_text;
use crate::iptables::direct::structure::{Structure, text};
use crate::iptables::direct::{Context, RuleError};
use crate::netlink::Writer;
use crate::nft::Family;

const SIZE: usize = 256;

/// The text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comment<'a> {
    /// At most 255 bytes.
    pub text: Cow<'a, str>,
}

impl<'a> Comment<'a> {
    pub(super) fn decode(info: &'a [u8]) -> Option<Self> {
        text(info, 0, SIZE).map(|text| Self { text: text.into() })
    }
}

impl<'a> Extension<'a> for Comment<'a> {
    fn required(&self) -> &'static [&'static [&'static str]] {
        &[&["--comment"]]
    }

    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        if call.name != "--comment" {
            return Ok(false);
        }
        call.plain()?;
        let text = call.value()?;
        if text.len() >= SIZE {
            return Err(call.bad(&text));
        }
        self.text = text;
        Ok(true)
    }

    fn print(&self, _: Family, out: &mut String) {
        out.push_str("-m comment --comment ");
        print_text(&self.text, out);
    }

    fn put(&self, writer: &mut Writer, _: &Context<'_>) -> Result<(), RuleError> {
        let info = Structure::<SIZE>::new().with(0, self.text.as_bytes());
        matching(writer, ExtensionName { name: "comment", revision: 0 }, info.as_bytes());
        Ok(())
    }
}
