//! The virtual machine of nf_tables: registers, instructions, chains.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ferrule_kernel::nft::ruleset::{ElementValue, Instruction, Ruleset, SeenSet};
use ferrule_kernel::nft::{
    Comparison, Expression, FibAddress, MetaKey, Name, PayloadBase, Register, Value, Verdict,
};
use ferrule_plan::NodeTraffic;

use super::super::exprs::{LOCAL_ADDRESS, STATE_NEW, STATUS_DNAT};
use super::NotFollowed;

/// The kernel's limit of chains that call each other.
const MAX_DEPTH: usize = 16;
/// No table of a proxy has a packet run through so many rules.
const MAX_RULES: usize = 200_000;
/// The kernel's `RTN_UNICAST`.
const UNICAST_ADDRESS: u32 = 1;
const REGISTER_BYTES: usize = 64;

/// A packet on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    pub from: IpAddr,
    pub to: IpAddr,
    pub protocol: u8,
    pub port: u16,
    pub interface: Option<String>,
    pub mark: u32,
    pub priority: u32,
    pub is_translated: bool,
    pub is_masqueraded: bool,
    /// For how many seconds its sender will be remembered.
    pub remembered: Option<u32>,
}

impl Default for State {
    fn default() -> Self {
        let nobody = IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED);
        Self {
            from: nobody,
            to: nobody,
            protocol: 0,
            port: 0,
            interface: None,
            mark: 0,
            priority: 0,
            is_translated: false,
            is_masqueraded: false,
            remembered: None,
        }
    }
}

/// Which numbers the kernel draws; all of them, one round after another.
#[derive(Debug, Default)]
pub struct Choices {
    /// Each with what it is below.
    drawn: Vec<(u32, u32)>,
    next: usize,
    /// The rules that the packet has met in all rounds.
    pub rules: usize,
}

impl Choices {
    fn draw(&mut self, below: u32) -> u32 {
        if self.next == self.drawn.len() {
            self.drawn.push((0, below));
        }
        let drawn = self.drawn.get(self.next).map_or(0, |(number, _)| *number);
        self.next += 1;
        drawn
    }

    /// The next combination of numbers, if there is one.
    pub fn next_round(&mut self) -> bool {
        self.next = 0;
        while let Some((number, below)) = self.drawn.pop() {
            if number + 1 < below {
                self.drawn.push((number + 1, below));
                return true;
            }
        }
        false
    }
}

/// How a chain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Returned,
    Accepted,
    Dropped,
    Rejected,
}

/// How an instruction or a rule ended.
enum Next {
    /// The next instruction.
    Go,
    /// This rule is not about the packet.
    SkipRule,
    To(Verdict),
    Reject,
    Accept,
}

/// Runs the chains of a table over one packet.
pub struct Machine<'a> {
    ruleset: &'a Ruleset,
    node: &'a NodeTraffic,
    pub state: State,
    choices: &'a mut Choices,
    registers: [u8; REGISTER_BYTES],
    /// The dynamic sets that the packet was checked against.
    queried: BTreeSet<Name>,
    rules: usize,
}

impl<'a> Machine<'a> {
    pub fn new(ruleset: &'a Ruleset, node: &'a NodeTraffic, state: State, choices: &'a mut Choices) -> Self {
        Self {
            ruleset,
            node,
            state,
            choices,
            registers: [0; REGISTER_BYTES],
            queried: BTreeSet::new(),
            rules: 0,
        }
    }

    /// Runs a base chain.
    pub fn run(&mut self, chain: &Name) -> Result<Ended, NotFollowed> {
        self.registers = [0; REGISTER_BYTES];
        self.chain(chain, 0)
    }

    fn chain(&mut self, name: &Name, depth: usize) -> Result<Ended, NotFollowed> {
        let stuck = |what: &str| NotFollowed { chain: name.to_string(), what: what.to_owned() };
        let ruleset = self.ruleset;
        let chain = ruleset.chains.get(name).ok_or_else(|| stuck("no such chain"))?;
        if depth > MAX_DEPTH {
            return Err(stuck("chains that call each other too often"));
        }
        for rule in &chain.rules {
            self.rules += 1;
            self.choices.rules += 1;
            if self.rules > MAX_RULES {
                return Err(stuck("too many rules"));
            }
            match self.rule(rule).map_err(|what| stuck(&what))? {
                Next::Go | Next::SkipRule => {}
                Next::Reject => return Ok(Ended::Rejected),
                Next::Accept | Next::To(Verdict::Accept) => return Ok(Ended::Accepted),
                Next::To(Verdict::Drop) => return Ok(Ended::Dropped),
                Next::To(Verdict::Return) => return Ok(Ended::Returned),
                Next::To(Verdict::Goto(target)) => return self.chain(&target, depth + 1),
                Next::To(Verdict::Jump(target)) => match self.chain(&target, depth + 1)? {
                    Ended::Returned => {}
                    ended => return Ok(ended),
                },
            }
        }
        Ok(Ended::Returned)
    }

    fn rule(&mut self, rule: &[Instruction]) -> Result<Next, String> {
        for instruction in rule {
            match self.instruction(instruction)? {
                Next::Go => {}
                next => return Ok(next),
            }
        }
        Ok(Next::Go)
    }

    fn instruction(&mut self, instruction: &Instruction) -> Result<Next, String> {
        match instruction {
            Instruction::Known(expression) => self.expression(expression),
            Instruction::NotIn { set, from } => {
                let is_in = self.find(set, *from)?.is_some();
                Ok(go_if(!is_in))
            }
            Instruction::Range { comparison, from, low, high } => {
                let value = self.bytes(*from, low.len())?;
                let is_between = low.as_slice() <= value && value <= high.as_slice();
                Ok(go_if(is_between == (*comparison == Comparison::Equal)))
            }
            Instruction::Remember { set } => {
                self.remember(set, None);
                Ok(Next::Go)
            }
            Instruction::NoEffect => Ok(Next::Go),
            Instruction::Other(name) => Err(format!("the expression \"{name}\" is not known")),
        }
    }

    fn expression(&mut self, expression: &Expression) -> Result<Next, String> {
        match expression {
            Expression::Payload { base, offset, length, to } => {
                let Some(bytes) = self.payload(*base, *offset, *length) else { return Ok(Next::SkipRule) };
                self.store(*to, &bytes)?;
            }
            Expression::Meta { key, to } => return self.meta(*key, *to),
            Expression::MetaSet { key, from } => self.set_meta(*key, *from)?,
            Expression::Compare { comparison, from, value } => {
                let is_equal = self.bytes(*from, value.len())? == value.as_slice();
                return Ok(go_if(is_equal == (*comparison == Comparison::Equal)));
            }
            Expression::Bitwise { from, to, mask, xor } => {
                let bytes = self.bytes(*from, mask.len())?.iter().zip(mask).zip(xor);
                let bytes: Vec<u8> = bytes.map(|((byte, mask), xor)| (byte & mask) ^ xor).collect();
                self.store(*to, &bytes)?;
            }
            Expression::Lookup { set, from, to } => return self.lookup(set, *from, *to),
            Expression::RandomNumber { modulus, to } => {
                let number = self.choices.draw((*modulus).max(1));
                self.store(*to, &number.to_ne_bytes())?;
            }
            // One number for each sender: which one does not matter, since the sets that it leads to are those that packets write.
            Expression::Hash { to, .. } => self.store(*to, &0_u32.to_ne_bytes())?,
            Expression::Load { value, to } => self.store(*to, value)?,
            Expression::Verdict(verdict) => return Ok(Next::To(verdict.clone())),
            Expression::DestinationNat { address, port } => return self.translate(*address, *port),
            Expression::Masquerade => {
                self.state.is_masqueraded = true;
                return Ok(Next::Accept);
            }
            Expression::Reject => return Ok(Next::Reject),
            Expression::ConnectionState { to } => self.store(*to, &STATE_NEW.to_ne_bytes())?,
            Expression::ConnectionStatus { to } => {
                let status = if self.state.is_translated { STATUS_DNAT } else { 0 };
                self.store(*to, &status.to_ne_bytes())?;
            }
            Expression::AddressType { of, to } => {
                let ip = match of {
                    FibAddress::Source => self.state.from,
                    FibAddress::Destination => self.state.to,
                };
                let kind = if self.node.has_address(ip) { LOCAL_ADDRESS } else { UNICAST_ADDRESS };
                self.store(*to, &kind.to_ne_bytes())?;
            }
            Expression::Update { timeout_millis, set, .. } => {
                self.remember(set, *timeout_millis);
            }
            // Without a counter in the set it is how senders are written down.
            Expression::CountIn { set, .. } => self.remember(set, None),
            Expression::Counter(_) => {}
            Expression::ConnectionTuple { .. } => {
                return Err("the addresses of a connection are not followed".to_owned());
            }
        }
        Ok(Next::Go)
    }

    /// A sender that is written down is remembered only where the next packet would be checked against it.
    fn remember(&mut self, set: &Name, millis: Option<u64>) {
        let of_set = self.ruleset.sets.get(set).and_then(|set| set.timeout_millis);
        let seconds = millis.or(of_set).and_then(|millis| u32::try_from(millis / 1000).ok());
        if self.queried.contains(set) {
            self.state.remembered = seconds.or(self.state.remembered);
        }
    }

    fn lookup(&mut self, set: &Name, from: Register, to: Option<Register>) -> Result<Next, String> {
        let Some(found) = self.find(set, from)? else { return Ok(Next::SkipRule) };
        match (found.clone(), to) {
            (ElementValue::Present, None) => Ok(Next::Go),
            (ElementValue::To(Value::Verdict(verdict)), Some(0)) => Ok(Next::To(verdict)),
            (ElementValue::To(Value::Data(data)), Some(to)) => self.store(to, &data).map(|()| Next::Go),
            _ => Err(format!("an element of {set} that cannot be followed")),
        }
    }

    fn find(&mut self, name: &Name, from: Register) -> Result<Option<&'a ElementValue>, String> {
        let set: &SeenSet =
            self.ruleset.sets.get(name).ok_or_else(|| format!("the set {name} is not there"))?;
        if set.is_dynamic {
            self.queried.insert(name.clone());
            return Ok(None);
        }
        if set.has_joined_ranges {
            return Err(format!("the set {name} has ranges of several fields"));
        }
        Ok(set.find(self.bytes(from, set.key_length)?))
    }

    fn translate(&mut self, address: Register, port: Register) -> Result<Next, String> {
        let length = if self.state.to.is_ipv4() { 4 } else { 16 };
        let bytes = self.bytes(address, length)?;
        let ip = if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
            IpAddr::from(octets)
        } else {
            let octets = <[u8; 16]>::try_from(bytes);
            IpAddr::from(octets.map_err(|_| "an address of another family".to_owned())?)
        };
        let port = self.bytes(port, 2)?.iter().fold(0, |port: u16, byte| port << 8 | u16::from(*byte));
        self.state.to = ip;
        self.state.port = port;
        self.state.is_translated = true;
        Ok(Next::Accept)
    }

    /// Bytes of a header; `None` behind its end.
    fn payload(&self, base: PayloadBase, offset: u32, length: u32) -> Option<Vec<u8>> {
        let header = match base {
            PayloadBase::Network => self.network_header(),
            PayloadBase::Transport => {
                let port = self.state.port.to_be_bytes();
                vec![0, 0, port[0], port[1]]
            }
        };
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(usize::try_from(length).ok()?)?;
        header.get(start..end).map(<[u8]>::to_vec)
    }

    fn network_header(&self) -> Vec<u8> {
        match (self.state.from, self.state.to) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let mut header = vec![0; 12];
                header[9] = self.state.protocol;
                header.extend(from.octets().into_iter().chain(to.octets()));
                header
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let mut header = vec![0; 8];
                header[6] = self.state.protocol;
                header.extend(from.octets().into_iter().chain(to.octets()));
                header
            }
            _ => Vec::new(),
        }
    }

    fn meta(&mut self, key: MetaKey, to: Register) -> Result<Next, String> {
        match key {
            MetaKey::Mark => self.store(to, &self.state.mark.to_ne_bytes())?,
            MetaKey::Priority => self.store(to, &self.state.priority.to_ne_bytes())?,
            MetaKey::L4Protocol => self.store(to, &[self.state.protocol])?,
            MetaKey::InputInterfaceName => {
                let mut name = [0; 16];
                let known = self.state.interface.as_deref().unwrap_or_default();
                name.iter_mut().zip(known.bytes().take(15)).for_each(|(byte, of_name)| *byte = of_name);
                self.store(to, &name)?;
            }
        }
        Ok(Next::Go)
    }

    fn set_meta(&mut self, key: MetaKey, from: Register) -> Result<(), String> {
        let bytes = <[u8; 4]>::try_from(self.bytes(from, 4)?).unwrap_or_default();
        match key {
            MetaKey::Mark => self.state.mark = u32::from_ne_bytes(bytes),
            MetaKey::Priority => self.state.priority = u32::from_ne_bytes(bytes),
            MetaKey::L4Protocol | MetaKey::InputInterfaceName => {
                return Err("a field that is read only".to_owned());
            }
        }
        Ok(())
    }

    fn bytes(&self, register: Register, length: usize) -> Result<&[u8], String> {
        let start = start_of(register)?;
        self.registers.get(start..start + length).ok_or_else(|| "more than a register holds".to_owned())
    }

    /// What is shorter than a register of four bytes is filled up with zeros, as in the kernel.
    fn store(&mut self, register: Register, bytes: &[u8]) -> Result<(), String> {
        let start = start_of(register)?;
        let end = start + bytes.len().next_multiple_of(4);
        let space =
            self.registers.get_mut(start..end).ok_or_else(|| "more than a register holds".to_owned())?;
        space.fill(0);
        space.iter_mut().zip(bytes).for_each(|(space, byte)| *space = *byte);
        Ok(())
    }
}

fn go_if(condition: bool) -> Next {
    if condition { Next::Go } else { Next::SkipRule }
}

/// Registers 1 to 4 hold 16 bytes each; 8 to 23 are the same space in parts of four.
fn start_of(register: Register) -> Result<usize, String> {
    let start = match register {
        1..=4 => (register - 1) * 16,
        8..=23 => (register - 8) * 4,
        _ => return Err(format!("register {register} is not known")),
    };
    usize::try_from(start).map_err(|error| error.to_string())
}
