//! The chains of a pool size, created when a pool of that size first appears.
//!
//! Every pick is followed by one of slot 0, which exists as long as the pool does: a packet may see the verdict of one
//! generation and the elements of the next.

use ferrule_kernel::nft::{Chain, Comparison, Expression, FibAddress, Rule, UpdateOperation};

use ferrule_plan::{Masquerade, PoolScope};

use super::base::{NodeContext, chain};
use super::exprs::{drop_packet, goto, is_local_address, mark, pick_slot, rule};
use super::names::{Entry, PoolChain, PoolRef, SetName, Table, endpoints_map, sticky_pools_map};

impl PoolChain {
    /// The chains this one jumps to; they must exist first.
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
    pub(super) fn chain(self, context: NodeContext<'_>) -> Chain {
        let rules = match self {
            Self::Pick { table, scope, size } => picks(context, PoolRef { table, scope }, size),
            Self::Enter { entry, size } => {
                entering(context, entry, picks(context, cluster(entry.table), size))
            }
            Self::Local { table, cluster, local } => {
                let to = |scope, size| goto(&Self::Pick { table, scope, size }.to_string());
                short_circuits(
                    context,
                    to(PoolScope::Cluster, cluster),
                    (local > 0).then(|| to(PoolScope::Local, local)),
                )
            }
            Self::Stick { size, seconds } => affinity_rules(context, size, seconds),
            Self::EnterSticky { entry, size, seconds } => {
                let load = rule([goto_sticky(context, cluster(entry.table), size, seconds)]);
                entering(context, entry, vec![load])
            }
            Self::LocalSticky { table, cluster, local, seconds } => {
                let to = |scope, size| goto_sticky(context, PoolRef { table, scope }, size, seconds);
                short_circuits(
                    context,
                    to(PoolScope::Cluster, cluster),
                    (local > 0).then(|| to(PoolScope::Local, local)),
                )
            }
        };
        chain(&self.to_string(), rules)
    }
}

/// One of so many endpoints, and the first of them if the pool shrank meanwhile.
fn picks(context: NodeContext<'_>, pool: PoolRef, size: u32) -> Vec<Rule> {
    let map = endpoints_map(pool);
    [size, 1].map(|size| rule([context.exprs.pick(pool.table, size, &map.name())])).to_vec()
}

fn cluster(table: Table) -> PoolRef {
    PoolRef { table, scope: PoolScope::Cluster }
}

fn entering(context: NodeContext<'_>, entry: Entry, then: Vec<Rule>) -> Vec<Rule> {
    let mark = match entry.masquerade {
        Masquerade::AsClusterIps => context.mark_unless_from_pods(),
        Masquerade::Always => Some(rule([mark(context.node.masquerade_mark)])),
        Masquerade::Never => None,
    };
    mark.into_iter().chain(then).collect()
}

/// Policy Local: pods and this host reach the cluster pool, others the local one or nothing.
fn short_circuits(
    context: NodeContext<'_>,
    cluster: Vec<Expression>,
    local: Option<Vec<Expression>>,
) -> Vec<Rule> {
    let pods = context.node.local_pods.as_ref();
    let pods = pods.map(|pods| rule([context.local_pods(pods, Comparison::Equal), cluster.clone()]));
    let host = rule([is_local_address(FibAddress::Source), mark(context.node.masquerade_mark), cluster]);
    let others = rule([local.unwrap_or_else(drop_packet)]);
    pods.into_iter().chain([host, others]).collect()
}

/// `meta priority set K map @sticky-pools goto sticky-N-T`
fn goto_sticky(context: NodeContext<'_>, pool: PoolRef, size: u32, seconds: u32) -> Vec<Expression> {
    let map = sticky_pools_map(pool);
    let mut exprs = context.exprs.load_id(pool.table, &map.name());
    exprs.extend(goto(&PoolChain::Stick { size, seconds }.to_string()));
    exprs
}

/// Known clients go where they went before; new ones get an endpoint and are remembered.
fn affinity_rules(context: NodeContext<'_>, size: u32, seconds: u32) -> Vec<Rule> {
    let exprs = context.exprs;
    let affinity = SetName::Affinity.name();
    let slots = SetName::StickySlots.name();
    let remember = || exprs.update_affinity(&affinity, UpdateOperation::Refresh, Some(seconds));
    let forward = || exprs.dnat_by_id(&SetName::StickyEndpoints.name());
    vec![
        rule([exprs.load_remembered_endpoint(&affinity), remember(), forward()]),
        // The client's endpoint left the pool: it is forgotten.
        rule([exprs.update_affinity(&affinity, UpdateOperation::Delete, None)]),
        rule([pick_slot(size, &slots), remember(), forward()]),
        // The map of clients is full: pick without remembering.
        rule([pick_slot(size, &slots), forward()]),
        // The pool shrank meanwhile.
        rule([pick_slot(1, &slots), forward()]),
    ]
}
