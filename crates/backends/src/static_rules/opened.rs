//! The tables that a mode has opened for such rules: what it uses of the host, and what it watches.

use std::sync::Arc;

use ferrule_kernel::iptables::TableAccess;
use ferrule_kernel::nft::Subscription;
use ferrule_kernel::port::XTables;
use ferrule_model::{IpFamily, PerFamily};
use ferrule_plan::ProxyMode;

use super::Jump;
use super::watch::{ChainAt, StaticWatch, WatchedTables};
use crate::foreign_commits::{self, Own};
use crate::{BackendError, InUse, RuleEventSink, iptables};

/// One family's tables, whatever they are read and written by.
pub(crate) type AnyTables = Box<dyn XTables + Send>;

/// One family's tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpenedTables {
    pub family: IpFamily,
    pub access: TableAccess,
    /// Under which our commits are announced, if they are.
    pub portid: Option<u32>,
}

/// Opens a family's tables; fails if nothing can read them here.
pub(crate) fn open(access: PerFamily<TableAccess>, family: IpFamily) -> Result<AnyTables, BackendError> {
    let Some(access) = access.get(family) else {
        return Err(
            BackendError::new("opening the iptables rules, which no program here can read").in_family(family)
        );
    };
    let tables = access.open().map_err(|error| iptables::unopened(family, error))?;
    Ok(Box::new(tables))
}

/// What a mode with these tables uses.
pub(crate) fn in_use(mode: ProxyMode, opened: &[OpenedTables]) -> InUse {
    let mut iptables = PerFamily::default();
    for tables in opened {
        iptables.set(tables.family, tables.access);
    }
    InUse { mode, iptables }
}

/// Watches chains and the jumps to them until the loop ends. Where the kernel does not announce changes, rules are verified every
/// period instead.
pub(crate) fn watch(
    opened: &[OpenedTables],
    chains: impl IntoIterator<Item = ChainAt>,
    jumps: &'static [Jump],
    sink: Arc<dyn RuleEventSink>,
) -> Result<(), BackendError> {
    let mut families: Vec<WatchedTables<AnyTables>> = Vec::new();
    for tables in opened.iter().filter(|tables| tables.portid.is_some()) {
        let reader = tables.access.open().map_err(|error| iptables::unopened(tables.family, error))?;
        families.push(WatchedTables { family: tables.family, reader });
    }
    if families.is_empty() {
        return Ok(());
    }
    let portids = opened.iter().filter_map(|tables| tables.portid).collect();
    let own = Own { portids, subscription: Subscription::default() };
    let watch = StaticWatch { families, chains: chains.into_iter().collect(), jumps };
    foreign_commits::watch(own, watch, sink)
}
