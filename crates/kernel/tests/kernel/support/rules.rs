//! Rules out of words, for tests only: registers are counted as `nft` counts them.

use ferrule_kernel::nft::{
    Chain, Comparison, Expression, Family, FibAddress, Hook, MetaKey, Name, PayloadBase, Register, Rule,
    UpdateOperation, Verdict,
};

/// A rule under construction.
pub struct Steps {
    family: Family,
    expressions: Vec<Expression>,
    /// The next free part of the registers, for keys of several fields.
    word: u32,
}

pub fn steps(family: Family) -> Steps {
    Steps { family, expressions: Vec::new(), word: 0 }
}

pub fn name(text: &str) -> Name {
    Name::new(text)
}

pub fn goto(chain: &str) -> Verdict {
    Verdict::Goto(name(chain))
}

pub fn chain(text: &str, rules: Vec<Rule>) -> Chain {
    Chain { name: name(text), hook: None, rules, comment: None }
}

pub fn base_chain(text: &str, hook: Hook, rules: Vec<Rule>) -> Chain {
    Chain { name: name(text), hook: Some(hook), rules, comment: None }
}

/// The register of so many parts of 4 bytes, under its first name.
pub fn register(word: u32) -> Register {
    if word.is_multiple_of(4) { 1 + word / 4 } else { 8 + word }
}

impl Steps {
    pub fn saddr(self) -> Self {
        let offset = if self.family == Family::Ip { 12 } else { 8 };
        self.address(offset)
    }

    pub fn daddr(self) -> Self {
        let offset = if self.family == Family::Ip { 16 } else { 24 };
        self.address(offset)
    }

    fn address(mut self, offset: u32) -> Self {
        let length = self.address_words() * 4;
        let to = self.take(length / 4);
        self.step(Expression::Payload { base: PayloadBase::Network, offset, length, to })
    }

    fn address_words(&self) -> u32 {
        if self.family == Family::Ip { 1 } else { 4 }
    }

    pub fn protocol(self) -> Self {
        self.meta(MetaKey::L4Protocol)
    }

    pub fn port(mut self, offset: u32) -> Self {
        let to = self.take(1);
        self.step(Expression::Payload { base: PayloadBase::Transport, offset, length: 2, to })
    }

    /// `meta l4proto . th dport`
    pub fn p(self) -> Self {
        self.protocol().port(2)
    }

    /// `ip daddr . meta l4proto . th dport`
    pub fn k(self) -> Self {
        self.daddr().p()
    }

    pub fn meta(mut self, key: MetaKey) -> Self {
        let to = self.take(1);
        self.step(Expression::Meta { key, to })
    }

    pub fn random(mut self, modulus: u32) -> Self {
        let to = self.take(1);
        self.step(Expression::RandomNumber { modulus, to })
    }

    /// Masks the last field, which is of so many parts.
    pub fn masked(self, mask: &[u8]) -> Self {
        let words = u32::try_from(mask.len() / 4).unwrap();
        let register = register(self.word - words);
        let zero = vec![0; mask.len()];
        self.step(Expression::Bitwise { from: register, to: register, mask: mask.into(), xor: zero.into() })
    }

    /// Looks the key up in a set.
    pub fn within(self, set: &str) -> Self {
        self.lookup(set, None)
    }

    /// Looks the key up in a map; register 0 takes a verdict.
    pub fn found_in(self, map: &str, to: Register) -> Self {
        self.lookup(map, Some(to))
    }

    fn lookup(mut self, set: &str, to: Option<Register>) -> Self {
        self.word = 0;
        self.step(Expression::Lookup { set: name(set), from: 1, to })
    }

    pub fn compare(mut self, comparison: Comparison, value: &[u8]) -> Self {
        self.word = 0;
        self.step(Expression::Compare { comparison, from: 1, value: value.into() })
    }

    pub fn set_meta(mut self, key: MetaKey) -> Self {
        self.word = 0;
        self.step(Expression::MetaSet { key, from: 1 })
    }

    /// `meta mark set meta mark | 0x4000`
    pub fn mark(self) -> Self {
        let (mask, xor) = (0xffff_bfff_u32.to_ne_bytes(), 0x4000_u32.to_ne_bytes());
        self.meta(MetaKey::Mark).bits(mask, xor).set_meta(MetaKey::Mark)
    }

    pub fn bits(self, mask: [u8; 4], xor: [u8; 4]) -> Self {
        self.step(Expression::Bitwise { from: 1, to: 1, mask: (&mask[..]).into(), xor: (&xor[..]).into() })
    }

    /// `ct state new`, `ct status dnat`
    pub fn connection(self, loaded: Expression, bit: u32) -> Self {
        self.step(loaded).bits(bit.to_ne_bytes(), [0; 4]).compare(Comparison::NotEqual, &[0; 4])
    }

    pub fn address_type_is_local(self, of: FibAddress) -> Self {
        self.step(Expression::AddressType { of, to: 1 }).compare(Comparison::Equal, &2_u32.to_ne_bytes())
    }

    /// `dnat ip to … map @map`
    pub fn dnat_by(self, map: &str) -> Self {
        let port = register(self.address_words());
        self.found_in(map, 1).step(Expression::DestinationNat { address: 1, port })
    }

    /// What a client is remembered by. An IPv6 address waits in the given register to be hashed.
    pub fn client(mut self, waiting: Register) -> Self {
        if self.family == Family::Ip {
            return self.saddr();
        }
        for seed in [1, 2] {
            let to = self.take(1);
            let payload =
                Expression::Payload { base: PayloadBase::Network, offset: 8, length: 16, to: waiting };
            let hash = Expression::Hash { from: waiting, length: 16, modulus: u32::MAX, seed, to };
            self = self.step(payload).step(hash);
        }
        self
    }

    /// `update @affinity { client . pool timeout T : meta priority }`, or delete.
    pub fn affinity(mut self, operation: UpdateOperation, timeout_millis: Option<u64>) -> Self {
        self = self.client(2).meta(MetaKey::Priority).masked(&0xffff_f000_u32.to_ne_bytes());
        self.word = 0;
        self.step(Expression::Meta { key: MetaKey::Priority, to: 2 }).step(Expression::Update {
            set: name("affinity"),
            operation,
            key: 1,
            data: 2,
            timeout_millis,
        })
    }

    pub fn step(mut self, expression: Expression) -> Self {
        self.expressions.push(expression);
        self
    }

    pub fn then(self, verdict: Verdict) -> Rule {
        self.step(Expression::Verdict(verdict)).rule()
    }

    pub fn rule(self) -> Rule {
        Rule { expressions: self.expressions, comment: None }
    }

    fn take(&mut self, words: u32) -> Register {
        let register = register(self.word);
        self.word += words;
        register
    }
}
