//! Reads a rule from its expressions, whichever version of iptables wrote them.
//!
//! Versions differ in what they write as expressions and what as structures of x_tables, in how they match the protocol, and
//! in the order. What is not understood becomes an [`Unknown`] part: nothing is left out, and no input makes this fail.

mod comparison;

use std::borrow::Cow;

use super::expressions::{exact, extension, range, value};
use super::extensions::{Comment, Kept, MarkTarget, MaskedMark, decoded_match, decoded_target, empty_target};
use super::structure::{is_printable, is_word};
use super::{Context, Match, Target, Unknown, UnknownKind, XtRule};
use crate::netlink::{Attribute, Attributes};
use crate::nft::constants::expression::{self as numbers, bitwise, compare, immediate, meta, payload};
use crate::nft::constants::{data, rule};
use crate::nft::user_data;
use comparison::{Comparison, Loaded, Operator};

impl<'a> XtRule<'a> {
    /// Decodes the attributes of a rule.
    pub fn decode(attributes: Attributes<'a>, context: &Context<'a>) -> Self {
        let mut decoder = Decoder { context: *context, rule: Self::default(), pending: None };
        for expression in attributes.nested(rule::EXPRESSIONS).into_iter().flatten() {
            decoder.expression(expression);
        }
        decoder.drop_pending();
        let notes = attributes.get(rule::USER_DATA).map_or(&[][..], |notes| notes.value);
        if let Some(text) = user_data::comment(notes).filter(|text| is_printable(text)) {
            // The comment of a rule that was written with nft.
            decoder.rule.matches.push(Match::Comment(Comment { text: Cow::Owned(text) }));
        }
        decoder.rule
    }
}

/// A value on its way through a register.
struct Pending {
    register: u32,
    loaded: Loaded,
    /// The mask it went through, and what was inverted.
    mask: Option<([u8; 16], [u8; 16])>,
    /// Of the expressions so far, if it leads nowhere.
    digest: Digest,
    /// The expression that loaded it.
    name: &'static str,
}

struct Decoder<'a> {
    context: Context<'a>,
    rule: XtRule<'a>,
    pending: Option<Pending>,
}

impl<'a> Decoder<'a> {
    fn expression(&mut self, expression: Attribute<'a>) {
        let attributes = expression.nested();
        let name = attributes.text(numbers::NAME).unwrap_or_default();
        let inner = attributes.nested(numbers::DATA).unwrap_or(Attributes::new(&[]));
        let understood = match name {
            "meta" => self.meta(inner, expression.value),
            "payload" => self.payload(inner, expression.value),
            "immediate" => self.immediate(inner, expression.value),
            "bitwise" => self.bitwise(inner, expression.value),
            "cmp" => self.compare(inner),
            "range" => self.compare_range(inner),
            "match" => self.matching(inner, expression.value),
            "target" => self.target(inner, expression.value),
            "counter" => Some(()),
            _ => None,
        };
        if understood.is_none() {
            self.unknown(name, expression.value);
        }
    }

    /// A part that is not understood, with the value that led to it.
    fn unknown(&mut self, name: &'a str, bytes: &[u8]) {
        let digest = self.pending.take().map_or(Digest::default(), |pending| pending.digest);
        let unknown =
            Unknown { name: name.into(), kind: UnknownKind::Expression, digest: digest.with(bytes).0 };
        self.rule.matches.push(Match::Unknown(unknown));
    }

    /// A value that was loaded and not compared with anything.
    fn drop_pending(&mut self) {
        if let Some(pending) = self.pending.take() {
            let (name, digest) = (pending.name.into(), pending.digest.0);
            self.rule.matches.push(Match::Unknown(Unknown { name, kind: UnknownKind::Expression, digest }));
        }
    }

    fn load(&mut self, register: u32, loaded: Loaded, source: (&'static str, &[u8])) {
        self.drop_pending();
        let (name, bytes) = source;
        let digest = Digest::default().with(bytes);
        self.pending = Some(Pending { register, loaded, mask: None, digest, name });
    }

    fn meta(&mut self, inner: Attributes<'a>, bytes: &[u8]) -> Option<()> {
        let key = inner.number(meta::KEY)?;
        if let Some(register) = inner.number(meta::FROM) {
            return self.set_mark(key, register);
        }
        self.load(inner.number(meta::TO)?, Loaded::Meta(key), ("meta", bytes));
        Some(())
    }

    fn payload(&mut self, inner: Attributes<'a>, bytes: &[u8]) -> Option<()> {
        let loaded = Loaded::Payload {
            base: inner.number(payload::BASE)?,
            offset: inner.number(payload::OFFSET)?,
            length: inner.number(payload::LENGTH)?,
        };
        self.load(inner.number(payload::TO)?, loaded, ("payload", bytes));
        Some(())
    }

    fn bitwise(&mut self, inner: Attributes<'a>, bytes: &[u8]) -> Option<()> {
        let operation = inner.number(bitwise::OPERATION).unwrap_or(bitwise::MASK_XOR);
        let (mask, inverted) = (value(inner, bitwise::MASK)?, value(inner, bitwise::XOR)?);
        let pending = self.pending.as_mut().filter(|pending| {
            operation == bitwise::MASK_XOR
                && inner.number(bitwise::FROM) == Some(pending.register)
                && pending.mask.is_none()
                && mask.len() <= 16
                && inverted.len() <= 16
        })?;
        pending.register = inner.number(bitwise::TO)?;
        pending.mask = Some((padded(mask), padded(inverted)));
        pending.digest = pending.digest.with(bytes);
        Some(())
    }

    /// `-j MARK`, as an expression.
    fn set_mark(&mut self, key: u32, register: u32) -> Option<()> {
        let pending = self.pending.as_ref().filter(|pending| pending.register == register)?;
        let number = |bytes: &[u8; 16]| bytes.first_chunk().map_or(0, |bytes| u32::from_ne_bytes(*bytes));
        let bits = match (&pending.loaded, &pending.mask) {
            (Loaded::Value(mark), None) => MaskedMark { mark: u32::from_ne_bytes(*mark), mask: u32::MAX },
            (Loaded::Meta(meta::MARK), Some((mask, inverted))) => {
                MaskedMark { mark: number(inverted), mask: !number(mask) }
            }
            _ => return None,
        };
        if key != meta::MARK || self.rule.target != Target::None {
            return None;
        }
        self.pending = None;
        self.rule.target = Target::Mark(MarkTarget { bits });
        Some(())
    }

    fn compare(&mut self, inner: Attributes<'a>) -> Option<()> {
        let operator = match inner.number(compare::OPERATION)? {
            compare::EQUAL => Operator::Equal,
            compare::NOT_EQUAL => Operator::NotEqual,
            compare::LESS => Operator::Less,
            compare::LESS_OR_EQUAL => Operator::LessOrEqual,
            compare::GREATER => Operator::Greater,
            compare::GREATER_OR_EQUAL => Operator::GreaterOrEqual,
            _ => return None,
        };
        let compared = value(inner, compare::DATA)?;
        self.compared(inner.number(compare::FROM)?, operator, (compared, compared))
    }

    fn compare_range(&mut self, inner: Attributes<'a>) -> Option<()> {
        let operator = match inner.number(range::OPERATION)? {
            compare::EQUAL => Operator::InRange,
            compare::NOT_EQUAL => Operator::NotInRange,
            _ => return None,
        };
        let bounds = (value(inner, range::FIRST)?, value(inner, range::LAST)?);
        self.compared(inner.number(range::FROM)?, operator, bounds)
    }

    fn compared(&mut self, register: u32, operator: Operator, bounds: (&'a [u8], &'a [u8])) -> Option<()> {
        let pending = self.pending.as_ref().filter(|pending| pending.register == register)?;
        let mask = match pending.mask {
            Some((mask, inverted)) if inverted == [0; 16] => Some(mask),
            Some(_) => return None,
            None => None,
        };
        let comparison = Comparison { loaded: pending.loaded, mask, operator, bounds };
        comparison.apply(&mut self.rule, self.context.family)?;
        self.pending = None;
        Some(())
    }

    fn immediate(&mut self, inner: Attributes<'a>, bytes: &[u8]) -> Option<()> {
        let given = inner.nested(immediate::DATA)?;
        let register = inner.number(immediate::TO)?;
        let Some(verdict) = given.nested(data::VERDICT) else {
            let value = exact(given.get(data::VALUE)?.value)?;
            self.load(register, Loaded::Value(value), ("immediate", bytes));
            return Some(());
        };
        let family = self.context.family;
        // A chain that goes by the name of a target would be taken for it.
        let is_chain = |name: &&str| is_word(name) && empty_target(name, family).is_none();
        let chain = || verdict.text(data::VERDICT_CHAIN).filter(is_chain).map(Cow::Borrowed);
        let target = match verdict.number(data::VERDICT_CODE)? {
            data::ACCEPT => Target::Accept,
            data::DROP => Target::Drop,
            data::RETURN => Target::Return,
            data::JUMP => Target::Jump(chain()?),
            data::GOTO => Target::Goto(chain()?),
            _ => return None,
        };
        self.set_target(target)
    }

    fn matching(&mut self, inner: Attributes<'a>, bytes: &[u8]) -> Option<()> {
        self.drop_pending();
        let kept = kept(inner)?;
        let found = decoded_match(&kept, &self.context).unwrap_or_else(|| {
            let (name, kind) = (kept.name.into(), UnknownKind::Match(kept.revision));
            Match::Unknown(Unknown { name, kind, digest: Digest::default().with(bytes).0 })
        });
        self.rule.matches.push(found);
        Some(())
    }

    fn target(&mut self, inner: Attributes<'a>, bytes: &[u8]) -> Option<()> {
        self.drop_pending();
        let kept = kept(inner)?;
        let found = decoded_target(&kept, &self.context).unwrap_or_else(|| {
            let (name, kind) = (kept.name.into(), UnknownKind::Target(kept.revision));
            Target::Unknown(Unknown { name, kind, digest: Digest::default().with(bytes).0 })
        });
        self.set_target(found)
    }

    /// A rule of iptables has one target.
    fn set_target(&mut self, target: Target<'a>) -> Option<()> {
        if self.rule.target != Target::None {
            return None;
        }
        self.drop_pending();
        self.rule.target = target;
        Some(())
    }
}

fn kept(inner: Attributes<'_>) -> Option<Kept<'_>> {
    Some(Kept {
        name: inner.text(extension::NAME)?,
        revision: inner.number(extension::REVISION)?,
        info: inner.get(extension::INFO)?.value,
    })
}

fn padded(bytes: &[u8]) -> [u8; 16] {
    let mut padded = [0; 16];
    for (place, byte) in padded.iter_mut().zip(bytes) {
        *place = *byte;
    }
    padded
}

/// A hash by which unknown parts are distinguished (FNV-1a).
#[derive(Clone, Copy)]
struct Digest(u64);

impl Default for Digest {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Digest {
    fn with(self, bytes: &[u8]) -> Self {
        Self(bytes.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
    }
}
