//! Where other programs' rules may stop a packet: their base chains, in tables of any name.
//!
//! Rules are read, not followed: that a chain has a rule that drops says that it may, not that it does.

use std::collections::{BTreeMap, BTreeSet};

use super::constants::{FIXED, chain, kind, message, rule, table};
use super::ruleset::{Entry, Instruction, decode};
use super::{Expression, Family, HookPoint, Name, NftClient, Verdict};
use crate::netlink::{Message, NetlinkError, Request};

/// The family `inet`, whose chains see packets of both.
const INET: u8 = 1;
/// Tables of all families are listed.
const ANY_FAMILY: [u8; FIXED] = [0; FIXED];
/// Chains that belong to a proxy, in tables that it shares with others.
const OF_A_PROXY: [&str; 2] = ["KUBE-", "FERRULE-"];

/// A base chain that may stop packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// `ip`, `ip6` or `inet`.
    pub family: &'static str,
    /// Its table.
    pub table: Name,
    /// Its name.
    pub chain: Name,
    /// Where packets meet it.
    pub point: HookPoint,
    /// The order among the chains of one hook.
    pub priority: i32,
    /// How it may stop them.
    pub how: Stops,
}

/// How a chain may stop packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stops {
    /// It drops what no rule accepts.
    ByPolicy,
    /// It has, or leads to, rules that drop or reject.
    ByRules,
}

/// A chain by family, table and name.
type Key = (u8, Name, Name);

/// What chains do, as far as it matters here.
#[derive(Default)]
struct Chains {
    entries: BTreeMap<Key, Entry>,
    leads_to: BTreeMap<Key, BTreeSet<Name>>,
    stopping: BTreeSet<Key>,
}

impl NftClient {
    /// Other programs' base chains that may stop packets of this client's family. The table of this client is left out.
    pub fn obstacles(&mut self) -> Result<Vec<Obstacle>, NetlinkError> {
        let mut chains = Chains { entries: self.every_chain()?, ..Chains::default() };
        self.read_every_rule(&mut chains)?;
        let found = chains.entries.iter().filter_map(|(key, entry)| chains.obstacle(key, *entry));
        let mut found: Vec<Obstacle> = found.collect();
        found.sort_by_key(|obstacle| (obstacle.point.number(), obstacle.priority));
        Ok(found)
    }

    fn every_chain(&mut self) -> Result<BTreeMap<Key, Entry>, NetlinkError> {
        let (own, family) = (self.table.name.clone(), self.table.family);
        let request = Request {
            operation: "listing the chains of all nftables tables",
            kind: kind(message::GET_CHAIN),
            body: &ANY_FAMILY,
        };
        let chains = self.socket.dump_whole(request, |message| {
            let attributes = message.attributes(FIXED);
            let (number, table) = of_others(message, &own, family)?;
            Some(((number, table, Name::new(attributes.text(chain::NAME)?)), decode::entry(attributes)))
        })?;
        Ok(chains.into_iter().collect())
    }

    /// Keeps nothing of a rule but what it may do: there may be very many.
    fn read_every_rule(&mut self, chains: &mut Chains) -> Result<(), NetlinkError> {
        let (own, family) = (self.table.name.clone(), self.table.family);
        let request = Request {
            operation: "listing the rules of all nftables tables",
            kind: kind(message::GET_RULE),
            body: &ANY_FAMILY,
        };
        let nothing = self.socket.dump_whole(request, |message| {
            let attributes = message.attributes(FIXED);
            let chain = attributes.text(rule::CHAIN).filter(|name| !is_of_a_proxy(name))?;
            let (number, table) = of_others(message, &own, family)?;
            let key = (number, table, Name::new(chain));
            chains.note(&key, &decode::instructions(attributes, family));
            None::<()>
        })?;
        debug_assert!(nothing.is_empty(), "all of it is in the chains");
        Ok(())
    }
}

/// The family and the table of an object, if packets of our family meet it and it is not in our own table.
fn of_others(message: &Message<'_>, own: &Name, family: Family) -> Option<(u8, Name)> {
    let number = *message.body.first()?;
    let table = Name::new(message.attributes(FIXED).text(table::NAME)?);
    let is_met = number == INET || number == family.number() && table != *own;
    is_met.then_some((number, table))
}

fn is_of_a_proxy(chain: &str) -> bool {
    OF_A_PROXY.iter().any(|start| chain.starts_with(start))
}

impl Chains {
    fn note(&mut self, key: &Key, instructions: &[Instruction]) {
        for instruction in instructions {
            let Instruction::Known(expression) = instruction else { continue };
            match expression {
                Expression::Reject | Expression::Verdict(Verdict::Drop) => {
                    self.stopping.insert(key.clone());
                }
                Expression::Verdict(Verdict::Goto(to) | Verdict::Jump(to)) => {
                    self.leads_to.entry(key.clone()).or_default().insert(to.clone());
                }
                _ => {}
            }
        }
    }

    fn obstacle(&self, key: &Key, entry: Entry) -> Option<Obstacle> {
        let Entry::Hook { hook, drops } = entry else { return None };
        let how = match (drops, self.may_stop(key)) {
            (true, _) => Stops::ByPolicy,
            (false, true) => Stops::ByRules,
            (false, false) => return None,
        };
        let (number, table, chain) = key.clone();
        let family = match number {
            INET => "inet",
            _ if number == Family::Ip.number() => "ip",
            _ => "ip6",
        };
        Some(Obstacle { family, table, chain, point: hook.point, priority: hook.priority, how })
    }

    /// Whether a chain, or one that it leads to, has a rule that stops packets; a proxy's chains do not count.
    fn may_stop(&self, key: &Key) -> bool {
        let (mut seen, mut next) = (BTreeSet::new(), vec![key.clone()]);
        while let Some(key) = next.pop() {
            if self.stopping.contains(&key) {
                return true;
            }
            let (number, table, _) = &key;
            let targets = self.leads_to.get(&key).into_iter().flatten();
            let others = targets.filter(|name| !is_of_a_proxy(name.as_str()));
            let others: Vec<Key> = others.map(|name| (*number, table.clone(), name.clone())).collect();
            next.extend(others.into_iter().filter(|key| seen.insert(key.clone())));
        }
        false
    }
}
