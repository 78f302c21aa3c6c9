//! The chains of a pool size, made when a pool of that size first appears.
//!
//! Every pick is followed by one of slot 0, which exists as long as the pool does: a packet may meet the verdict of one
//! generation and the elements of the next.

use ferrule_kernel::nft::{Chain, Comparison, Expression, FibAddress, Rule, UpdateOperation};

use ferrule_plan::PoolScope;

use super::base::{Site, chain};
use super::names::{Entry, PoolChain, SetName, Table, endpoints_map, sticky_pools_map};
use super::words::{draw, drop_packet, goto, is_of_this_host, mark, rule};

impl PoolChain {
    /// The chains this one sends packets to; they must be there first.
    pub(super) fn targets(self) -> Vec<Self> {
        match self {
            Self::Pick { .. } | Self::Enter { .. } | Self::Stick { .. } => Vec::new(),
            Self::Local { table, cluster, local } => {
                let picks = [(PoolScope::Cluster, cluster), (PoolScope::Local, local)];
                let picks = picks.into_iter().filter(|(_, size)| *size > 0);
                picks.map(|(scope, size)| Self::Pick { table, scope, size }).collect()
            }
            Self::EnterSticky { size, seconds, .. } => vec![Self::Stick { size, seconds }],
            Self::LocalSticky { cluster, local, seconds, .. } => {
                let mut sizes = vec![cluster, local];
                sizes.retain(|size| *size > 0);
                sizes.dedup();
                sizes.into_iter().map(|size| Self::Stick { size, seconds }).collect()
            }
        }
    }

    /// The chain with its rules.
    pub(super) fn chain(self, place: Site<'_>) -> Chain {
        let rules = match self {
            Self::Pick { table, scope, size } => picks(place, table, scope, size),
            Self::Enter { entry, size } => {
                entering(place, entry, picks(place, entry.table(), PoolScope::Cluster, size))
            }
            Self::Local { table, cluster, local } => {
                let to = |scope, size| goto(&Self::Pick { table, scope, size }.to_string());
                short_circuits(
                    place,
                    to(PoolScope::Cluster, cluster),
                    (local > 0).then(|| to(PoolScope::Local, local)),
                )
            }
            Self::Stick { size, seconds } => sticking(place, size, seconds),
            Self::EnterSticky { entry, size, seconds } => {
                let take = rule([stick(place, (entry.table(), PoolScope::Cluster), size, seconds)]);
                entering(place, entry, vec![take])
            }
            Self::LocalSticky { table, cluster, local, seconds } => short_circuits(
                place,
                stick(place, (table, PoolScope::Cluster), cluster, seconds),
                (local > 0).then(|| stick(place, (table, PoolScope::Local), local, seconds)),
            ),
        };
        chain(&self.to_string(), rules)
    }
}

impl Entry {
    fn table(self) -> Table {
        match self {
            Self::Cluster | Self::External => Table::Address,
            Self::NodePort => Table::NodePort,
        }
    }
}

/// One of so many endpoints, and the first of them if the pool shrank under us.
fn picks(place: Site<'_>, table: Table, scope: PoolScope, size: u32) -> Vec<Rule> {
    let map = endpoints_map(table, scope);
    [size, 1].map(|size| rule([place.words.pick(table, size, &map.name())])).to_vec()
}

fn entering(place: Site<'_>, entry: Entry, then: Vec<Rule>) -> Vec<Rule> {
    let mark = match entry {
        Entry::Cluster => place.mark_unless_from_pods(),
        Entry::External | Entry::NodePort => Some(rule([mark(place.node.masquerade_mark)])),
    };
    mark.into_iter().chain(then).collect()
}

/// Policy Local: pods and this host reach the cluster pool, others the local one or nothing.
fn short_circuits(place: Site<'_>, cluster: Vec<Expression>, local: Option<Vec<Expression>>) -> Vec<Rule> {
    let pods = place.node.local_pods.as_ref();
    let pods = pods.map(|pods| rule([place.local_pods(pods, Comparison::Equal), cluster.clone()]));
    let host = rule([is_of_this_host(FibAddress::Source), mark(place.node.masquerade_mark), cluster]);
    let others = rule([local.unwrap_or_else(drop_packet)]);
    pods.into_iter().chain([host, others]).collect()
}

/// `meta priority set K map @sticky-pools goto sticky-N-T`
fn stick(place: Site<'_>, (table, scope): (Table, PoolScope), size: u32, seconds: u32) -> Vec<Expression> {
    let map = sticky_pools_map(table, scope);
    let mut words = place.words.take_number(table, &map.name());
    words.extend(goto(&PoolChain::Stick { size, seconds }.to_string()));
    words
}

/// Known clients go where they went; new ones draw and are remembered.
fn sticking(place: Site<'_>, size: u32, seconds: u32) -> Vec<Rule> {
    let words = place.words;
    let affinity = SetName::Affinity.name();
    let slots = SetName::StickySlots.name();
    let remember = || words.write_down(&affinity, UpdateOperation::Refresh, Some(seconds));
    let forward = || words.redirect_by_id(&SetName::StickyEndpoints.name());
    vec![
        rule([words.recall(&affinity), remember(), forward()]),
        // The client's endpoint is gone: so is what was remembered.
        rule([words.write_down(&affinity, UpdateOperation::Delete, None)]),
        rule([draw(size, &slots), remember(), forward()]),
        // The map of clients is full: draw without remembering.
        rule([draw(size, &slots), forward()]),
        // The pool shrank under us.
        rule([draw(1, &slots), forward()]),
    ]
}
