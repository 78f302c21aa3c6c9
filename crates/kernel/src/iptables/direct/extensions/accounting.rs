//! `-m nfacct`: counts packets in a named counter.

use std::borrow::Cow;

use super::Extension;
use crate::iptables::direct::expressions::{ExtensionName, matching};
use crate::iptables::direct::option::OptionCall;
use crate::iptables::direct::structure::{Structure, is_word, name};
use crate::iptables::direct::{Context, RuleError};
use crate::netlink::Writer;
use crate::nft::Family;

const NAME_LENGTH: usize = 32;
const SIZE: usize = 40;

/// The counter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Accounting<'a> {
    /// Its name.
    pub counter: Cow<'a, str>,
}

impl<'a> Accounting<'a> {
    pub(super) fn decode(info: &'a [u8]) -> Option<Self> {
        name(info, 0, NAME_LENGTH).map(|counter| Self { counter: counter.into() })
    }
}

impl<'a> Extension<'a> for Accounting<'a> {
    fn required(&self) -> &'static [&'static [&'static str]] {
        &[&["--nfacct-name"]]
    }

    fn take(&mut self, call: &mut OptionCall<'_, 'a>) -> Result<bool, RuleError> {
        if call.name != "--nfacct-name" {
            return Ok(false);
        }
        call.plain()?;
        let counter = call.value()?;
        if !is_word(&counter) || counter.len() >= NAME_LENGTH {
            return Err(call.bad(&counter));
        }
        self.counter = counter;
        Ok(true)
    }

    fn print(&self, _: Family, out: &mut String) {
        out.push_str("-m nfacct --nfacct-name  ");
        out.push_str(&self.counter);
    }

    fn put(&self, writer: &mut Writer, _: &Context<'_>) -> Result<(), RuleError> {
        let info = Structure::<SIZE>::new().with(0, self.counter.as_bytes());
        matching(writer, ExtensionName { name: "nfacct", revision: 1 }, info.as_bytes());
        Ok(())
    }
}
