//! The way of a packet through the hooks of a host.

use std::net::SocketAddr;

use ferrule_kernel::nft::ruleset::{Entry, Ruleset};
use ferrule_kernel::nft::{ChainKind, HookPoint, Name};
use ferrule_model::Protocol;
use ferrule_plan::{NodeTraffic, Packet};

use super::machine::{Choices, Ended, Machine, State};
use super::{NotFollowed, Table};

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    Delivered {
        endpoint: SocketAddr,
        masqueraded: bool,
        /// For how many seconds its sender keeps the endpoint.
        remembered: Option<u32>,
    },
    Dropped,
    Rejected,
    Untouched,
}

/// A base chain.
#[derive(Debug)]
pub struct BaseChain<'a> {
    name: &'a Name,
    entry: Entry,
}

/// The base chains of a table.
pub fn base_chains(ruleset: &Ruleset) -> Vec<BaseChain<'_>> {
    let chains = ruleset.chains.iter().map(|(name, chain)| BaseChain { name, entry: chain.entry });
    chains.filter(|chain| chain.entry != Entry::Chains).collect()
}

/// One packet between the hooks.
struct Passage<'a> {
    machine: Machine<'a>,
    chains: &'a [BaseChain<'a>],
}

/// Sends a packet through all hooks on its passage.
pub fn pass(
    table: &Table<'_>,
    node: &NodeTraffic,
    packet: &Packet,
    choices: &mut Choices,
) -> Result<Fate, NotFollowed> {
    let machine = Machine::new(table.ruleset, node, State::of(packet), choices);
    let mut passage = Passage { machine, chains: &table.base_chains };
    let is_sent_here = packet.interface.is_none() && node.has_address(packet.from);
    let first = if is_sent_here { HookPoint::Output } else { HookPoint::Prerouting };
    if let Some(fate) = passage.hook(first)? {
        return Ok(fate);
    }
    let is_received = node.has_address(passage.machine.state.to);
    let rest: &[HookPoint] = match (is_sent_here, is_received) {
        (true, false) => &[HookPoint::Postrouting],
        // By way of the loopback interface.
        (true, true) => &[HookPoint::Postrouting, HookPoint::Prerouting, HookPoint::Input],
        (false, true) => &[HookPoint::Input],
        (false, false) => &[HookPoint::Forward, HookPoint::Postrouting],
    };
    for point in rest {
        if *point == HookPoint::Prerouting {
            passage.machine.state.interface = Some("lo".to_owned());
        }
        if let Some(fate) = passage.hook(*point)? {
            return Ok(fate);
        }
    }
    Ok(passage.machine.state.fate())
}

impl Passage<'_> {
    /// Returns what becomes of the packet, unless it goes on.
    fn hook(&mut self, point: HookPoint) -> Result<Option<Fate>, NotFollowed> {
        let mut here = Vec::new();
        for BaseChain { name, entry } in self.chains {
            match *entry {
                Entry::Hook { hook, drops } if hook.point == point => {
                    here.push((hook.priority, hook.kind, *name, drops));
                }
                Entry::Hook { .. } | Entry::Chains => {}
                Entry::Unknown => {
                    let what = "a hook that is not known".to_owned();
                    return Err(NotFollowed { chain: name.to_string(), what });
                }
            }
        }
        here.sort_by_key(|(priority, ..)| *priority);
        for (_, kind, name, drops) in here {
            // A connection's destination is translated once.
            if kind == ChainKind::Nat && point != HookPoint::Postrouting && self.machine.state.is_translated {
                continue;
            }
            match self.machine.run(name)? {
                Ended::Dropped => return Ok(Some(Fate::Dropped)),
                Ended::Rejected => return Ok(Some(Fate::Rejected)),
                Ended::Returned if drops => return Ok(Some(Fate::Dropped)),
                Ended::Returned | Ended::Accepted => {}
            }
        }
        Ok(None)
    }
}

impl State {
    fn of(packet: &Packet) -> Self {
        let (protocol, port) = packet.port.map_or((None, 0), |(protocol, port)| (Some(protocol), port));
        Self {
            from: packet.from,
            to: packet.to,
            // Without a port it is a ping.
            protocol: protocol.map_or(if packet.to.is_ipv4() { 1 } else { 58 }, Protocol::number),
            port,
            interface: packet.interface.clone(),
            ..Self::default()
        }
    }

    fn fate(&self) -> Fate {
        if !self.is_translated {
            return Fate::Untouched;
        }
        let endpoint = SocketAddr::new(self.to, self.port);
        Fate::Delivered { endpoint, masqueraded: self.is_masqueraded, remembered: self.remembered }
    }
}
