//! Stale flows, deleted by a thread of its own: the table of connections may be long, and the next change must not wait.

use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use ferrule_backends::table_family;
use ferrule_kernel::conntrack::{self, Conntrack, FlowFilter, FlowQuery};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_model::{IpFamily, PerFamily, Protocol};
use ferrule_plan::{Flow, FrontendKey, StaleFlows};
use tracing::{info, warn};

use ferrule_kernel::threads;
use ferrule_model::with_causes;

/// Up to this many frontends are queried one by one, so that the kernel filters their flows. Beyond, one list of all UDP
/// flows is cheaper than as many walks through the table.
const MAX_SINGLE_QUERIES: usize = 8;

/// After a failure it is tried again this much later.
const RETRY_DELAY: Duration = Duration::from_secs(10);

/// What one walk through the flows did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleaned {
    /// The family.
    pub family: IpFamily,
    /// How many flows were deleted.
    pub deleted: usize,
    /// How long it took.
    pub took: Duration,
}

/// Deletes stale flows in the background.
#[derive(Debug)]
pub struct FlowCleaner {
    orders: Sender<(IpFamily, StaleFlows)>,
}

impl FlowCleaner {
    /// Starts the thread, in the network namespace of this one. It ends when this is dropped.
    pub fn start(report: impl Fn(Cleaned) + Send + 'static) -> std::io::Result<Self> {
        let (orders, todo) = mpsc::channel();
        threads::spawn("stale-flows", move || work(&todo, &report))?;
        Ok(Self { orders })
    }

    /// Has these flows deleted soon.
    pub fn delete(&self, family: IpFamily, stale: StaleFlows) {
        if !stale.is_empty() {
            // The thread ends only with the program.
            let _ = self.orders.send((family, stale));
        }
    }
}

fn work(todo: &Receiver<(IpFamily, StaleFlows)>, report: &impl Fn(Cleaned)) {
    let mut orders: PerFamily<StaleFlows> = PerFamily::default();
    loop {
        // What could not be deleted is tried again with what comes next, or after a while.
        let next = if orders.is_empty() {
            todo.recv().map_err(|_| RecvTimeoutError::Disconnected)
        } else {
            todo.recv_timeout(RETRY_DELAY)
        };
        match next {
            Ok((family, stale)) => merge(&mut orders, family, stale),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        // What came meanwhile is done in the same walk.
        for (family, stale) in todo.try_iter() {
            merge(&mut orders, family, stale);
        }
        for family in IpFamily::BOTH {
            if orders.get(family).is_some_and(|stale| clean(family, stale, report)) {
                *orders.slot(family) = None;
            }
        }
    }
}

fn merge(orders: &mut PerFamily<StaleFlows>, family: IpFamily, newer: StaleFlows) {
    match orders.slot(family) {
        Some(stale) => stale.merge(newer),
        slot @ None => *slot = Some(newer),
    }
}

/// Returns whether it is done.
fn clean(family: IpFamily, stale: &StaleFlows, report: &impl Fn(Cleaned)) -> bool {
    let began = Instant::now();
    match delete_stale(family, stale) {
        Ok(deleted) => {
            let took = began.elapsed();
            info!(v = 2, %family, deleted, ?took, "Checked for stale flows");
            // Without UDP frontends kube-proxy does not search, and counts nothing.
            if deleted > 0 || stale.frontends().next().is_some() {
                report(Cleaned { family, deleted, took });
            }
            true
        }
        Err(error) => {
            let err = with_causes(&error);
            warn!(%family, err, "Stale flows could not be deleted, trying again");
            false
        }
    }
}

/// Deletes the stale flows of a family; returns how many there were. One that cannot be deleted does not save the others.
pub fn delete_stale(family: IpFamily, stale: &StaleFlows) -> Result<usize, NetlinkError> {
    let mut kernel = Conntrack::open()?;
    let mut deleted = 0;
    let mut failure = None;
    for (protocol, filter) in queries(stale) {
        let is_stale = |flow: &conntrack::Flow| stale.contains(&as_planned(protocol, flow));
        let query = FlowQuery { family: table_family(family), protocol: number_of(protocol), filter };
        let listed = kernel.some_flows(query, is_stale)?;
        for flow in &listed.items {
            match kernel.delete(flow) {
                Ok(()) => deleted += 1,
                Err(error) => failure = Some(error),
            }
        }
    }
    failure.map_or(Ok(deleted), Err)
}

fn queries(stale: &StaleFlows) -> Vec<(Protocol, FlowFilter)> {
    let mut queries: Vec<(Protocol, FlowFilter)> =
        udp_filters(stale).into_iter().map(|filter| (Protocol::Udp, filter)).collect();
    if stale.has_missed() {
        queries.extend([Protocol::Tcp, Protocol::Sctp].map(|protocol| (protocol, FlowFilter::Unreplied)));
    }
    queries
}

fn udp_filters(stale: &StaleFlows) -> Vec<FlowFilter> {
    let frontends: Vec<&FrontendKey> = stale.frontends().collect();
    if frontends.len() > MAX_SINGLE_QUERIES {
        return vec![FlowFilter::All];
    }
    let filter = |key: &FrontendKey| match *key {
        FrontendKey::Address(ip, _, port) => FlowFilter::Destination(SocketAddr::new(ip, port)),
        FrontendKey::NodePort(_, port) | FrontendKey::LoopbackNodePort(_, port) => FlowFilter::Port(port),
        FrontendKey::UnmatchedPorts(_) => FlowFilter::All,
    };
    frontends.into_iter().map(filter).collect()
}

fn as_planned(protocol: Protocol, flow: &conntrack::Flow) -> Flow {
    let (to, answered_by) = (flow.original.destination, flow.reply.source);
    Flow { protocol, to, answered_by, is_attempt: flow.is_unreplied }
}

fn number_of(protocol: Protocol) -> u8 {
    match protocol {
        Protocol::Tcp => conntrack::TCP,
        Protocol::Udp => conntrack::UDP,
        Protocol::Sctp => conntrack::SCTP,
    }
}
