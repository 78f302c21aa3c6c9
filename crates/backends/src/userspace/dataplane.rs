//! Keeps one family's sockets, claims and rules in line with the plan.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::time::Duration;

use ferrule_kernel::iptables::IptablesError;
use ferrule_kernel::port::XTables;
use ferrule_model::{IpFamily, with_causes};
use ferrule_plan::{FamilyPlan, FrontendKey, PlanDelta, StaleFlows};

use super::RESERVED_DESCRIPTORS;
use super::claims::Claims;
use super::handover::{Handover, Turn};
use super::host_address::HostAddress;
use super::portals::{Portals, Socket, SocketError};
use super::rules::{RuleInput, rules};
use super::socket_names::{claim_name, portal_name};
use super::sockets::Sockets;
use super::steering::Steering;
use super::wanted::{Claim, Destination, PortalId, Route, Wanted, spec};
use crate::iptables::metrics::RESTORE_FAILURES;
use crate::metrics::Sample;
use crate::static_rules::{AnyTables, StaticRules, StaticTables};
use crate::{BackendError, Cost, Dataplane, Patch, Rejected, SyncOutcome, SyncReport, Trigger};

/// One family in userspace mode.
pub(super) struct UserspaceDataplane<T = AnyTables> {
    family: IpFamily,
    tables: StaticTables<T>,
    portals: Portals<PortalId>,
    /// Sockets that are not served yet, since the rules that lead to them could not be written.
    bound: Bound,
    sockets: Sockets,
    claims: Claims,
    handover: Handover,
    /// The last time that the sockets came back and were served here again.
    returns: u64,
    /// The address that sockets are bound to, unless they are bound to all.
    listen_ip: Option<IpAddr>,
    host_address: HostAddress,
    sync_period: Duration,
    /// What the last sync was for. Nothing before the first one and after a failure.
    wanted: Option<Wanted>,
    /// The rules that the last sync wrote or found. Others in their place are another program's doing.
    rules: Option<StaticRules>,
    /// What could not be served after the last sync.
    rejected: BTreeSet<String>,
}

/// A socket that is not served yet.
struct BoundSocket {
    socket: Socket,
    port: u16,
    /// Whether it is not one of the process before.
    is_new: bool,
}

type Bound = BTreeMap<PortalId, BoundSocket>;

/// What a family is made of.
pub(super) struct Parts<T = AnyTables> {
    pub family: IpFamily,
    pub tables: T,
    pub portals: Portals<PortalId>,
    pub sockets: Sockets,
    pub handover: Handover,
    pub listen_ip: Option<IpAddr>,
    pub sync_period: Duration,
}

impl<T: XTables> UserspaceDataplane<T> {
    /// Opens, reads and writes nothing yet.
    pub(super) fn new(parts: Parts<T>) -> Self {
        let Parts { family, tables, portals, sockets, handover, listen_ip, sync_period } = parts;
        Self {
            family,
            tables: StaticTables::new(tables),
            portals,
            sockets,
            bound: Bound::new(),
            claims: Claims::new(family),
            handover,
            returns: 0,
            listen_ip,
            host_address: HostAddress::new(family),
            sync_period,
            wanted: None,
            rules: None,
            rejected: BTreeSet::new(),
        }
    }

    /// The netlink portid that notifications of our own rules carry, where there are any.
    pub(super) fn portid(&self) -> Option<u32> {
        self.tables.portid()
    }

    /// Other endpoints behind the same sockets: no rule changes.
    fn change_endpoints(&mut self, plan: &FamilyPlan, delta: &PlanDelta) -> SyncReport {
        let mut written = 0;
        for id in delta.pools.keys() {
            let portal = PortalId::Service(id.owner.clone(), id.scope);
            let spec = spec(plan, &portal);
            written += usize::from(self.portals.update(&portal, &spec));
        }
        SyncReport { written, outcome: SyncOutcome::Incremental, ..SyncReport::default() }
    }

    /// Sockets first, then the rules that lead to them; sockets that no rule leads to any more last.
    fn bring_in_line(&mut self, plan: &FamilyPlan, turn: &mut Turn<'_>) -> Result<SyncReport, BackendError> {
        let is_first = self.wanted.take().is_none();
        let wanted = Wanted::from_plan(plan);
        let mut rejected = unserved(&wanted);
        self.bind(&wanted, turn, &mut rejected);
        let routes = self.claim(&wanted, turn, &mut rejected);
        let rules = self.rules(plan, &routes);
        let correction = match self.tables.sync(&rules) {
            Ok(correction) => correction,
            Err(error) => {
                // The next process gets what was taken over, even if it is not served here.
                self.publish(turn);
                return Err(self.failed(error));
            }
        };
        let mut written = self.serve(&wanted, turn, &mut rejected);
        if self.returns != turn.returns() {
            self.portals.accept_again();
            self.returns = turn.returns();
        }
        let is_repair = !correction.is_empty() && self.rules.as_ref() == Some(&rules);
        self.rules = Some(rules);
        written += correction.objects;
        let removed = self.close(&wanted, turn);
        self.publish(turn);
        turn.close_rest(self.family);
        self.portals.purge_expired();
        self.wanted = Some(wanted);
        let outcome = match (written + removed, is_first) {
            (0, _) => SyncOutcome::UpToDate,
            _ if is_repair => SyncOutcome::Rewritten,
            (_, true) => SyncOutcome::Created,
            (_, false) => SyncOutcome::Incremental,
        };
        let commits = usize::from(!correction.is_empty());
        let rejected = self.report_rejected(rejected);
        let (quarantined, notes) = (rejected.len(), turn.take_notes());
        Ok(SyncReport {
            written,
            removed,
            commits,
            outcome,
            quarantined,
            rejected,
            notes,
            ..SyncReport::default()
        })
    }

    /// Another process serves. What no Service needs is closed here, too: as long as one process has it open, it is taken.
    fn stand_by(&mut self, plan: &FamilyPlan, turn: &mut Turn<'_>) -> SyncReport {
        let wanted = Wanted::from_plan(plan);
        self.claims.release_others(&wanted.claims, turn);
        self.close(&wanted, turn);
        SyncReport::default()
    }

    /// Binds what is missing. It is not served before the rules that guard it are there.
    fn bind(&mut self, wanted: &Wanted, turn: &mut Turn<'_>, rejected: &mut BTreeMap<String, String>) {
        for portal in wanted.portals.keys() {
            if self.portals.is_open(portal) || self.bound.contains_key(portal) {
                continue;
            }
            let adopted = self.adopted(portal, turn);
            let is_new = adopted.is_none();
            let bound = adopted.map_or_else(|| self.sockets.bind(portal.protocol()), Ok).and_then(|socket| {
                let address = socket.local_addr().map_err(|source| SocketError::Address { source })?;
                Ok(BoundSocket { socket, port: address.port(), is_new })
            });
            match bound {
                Ok(bound) => drop(self.bound.insert(portal.clone(), bound)),
                Err(error) => drop(rejected.insert(describe(portal), with_causes(&error))),
            }
        }
    }

    /// Serves what was bound, and gives every socket its endpoints; returns how many changed.
    fn serve(
        &mut self,
        wanted: &Wanted,
        turn: &mut Turn<'_>,
        rejected: &mut BTreeMap<String, String>,
    ) -> usize {
        let mut changed = 0;
        for (portal, spec) in &wanted.portals {
            let Some(BoundSocket { socket, is_new, port }) = self.bound.remove(portal) else {
                changed += usize::from(self.portals.update(portal, spec));
                continue;
            };
            let served = if is_new {
                self.portals.serve_new(portal.clone(), socket, spec)
            } else {
                self.portals.serve(portal.clone(), socket, spec)
            };
            match served {
                Ok(()) => changed += usize::from(is_new),
                Err(error) => {
                    turn.forget(&portal_name(self.family, portal));
                    self.sockets.release(portal.protocol(), port);
                    rejected.insert(describe(portal), with_causes(&error));
                }
            }
        }
        changed
    }

    /// The socket that the process before had for it.
    fn adopted(&mut self, portal: &PortalId, turn: &mut Turn<'_>) -> Option<Socket> {
        let socket = turn.adopt(&portal_name(self.family, portal))?;
        self.sockets.adopt(portal.protocol(), socket)
    }

    /// Lets the next process have what is open now. It has no use for a new socket that is not served.
    fn publish(&self, turn: &mut Turn<'_>) {
        let adopted = self.bound.iter().filter(|(_, bound)| !bound.is_new);
        let adopted = adopted.map(|(portal, bound)| (portal, bound.socket.as_fd()));
        let portals = self.portals.sockets().chain(adopted);
        let portals = portals.map(|(portal, socket)| (portal_name(self.family, portal), socket));
        let claims = self.claims.sockets();
        let claims = claims.map(|(claim, socket)| (claim_name(self.family, claim), socket));
        turn.publish(portals.chain(claims));
        // Each has a descriptor here, and one for the next process.
        self.portals.reserve_descriptors(RESERVED_DESCRIPTORS + 2 * turn.published() as u64);
    }

    /// Claims ports of the host; returns the routes that may be written.
    fn claim<'a>(
        &mut self,
        wanted: &'a Wanted,
        turn: &mut Turn<'_>,
        rejected: &mut BTreeMap<String, String>,
    ) -> Vec<&'a Route> {
        let failed = self.claims.update(&wanted.claims, turn);
        let mut others = BTreeSet::new();
        for failure in failed {
            let what = format!("{} port {}/{}", failure.owner, failure.claim.port, failure.claim.protocol);
            rejected.insert(what, with_causes(&failure.error));
            others.insert(failure.claim);
        }
        wanted.routes.iter().filter(|route| !others.contains(&claim_of(route))).collect()
    }

    fn rules(&mut self, plan: &FamilyPlan, routes: &[&Route]) -> StaticRules {
        let open = self.portals.addresses().map(|(portal, address)| (portal.clone(), address.port()));
        let ports = open.chain(self.bound.iter().map(|(portal, bound)| (portal.clone(), bound.port)));
        let routes: Vec<Route> = routes.iter().copied().cloned().collect();
        rules(&RuleInput {
            routes: &routes,
            ports: &ports.collect(),
            listen_ip: self.listen_ip,
            host_ip: self.host_address.among(&plan.node.host_addresses),
            steering: Steering::needed(self.family),
        })
    }

    fn close(&mut self, wanted: &Wanted, turn: &mut Turn<'_>) -> usize {
        let is_wanted = |portal: &PortalId| wanted.portals.contains_key(portal);
        let open = self.portals.close_others(is_wanted);
        let open = open.into_iter().map(|(portal, address)| (portal, address.port()));
        let bound = self.bound.extract_if(.., |portal, _| !is_wanted(portal));
        let closed: Vec<(PortalId, u16)> =
            open.chain(bound.map(|(portal, bound)| (portal, bound.port))).collect();
        for (portal, port) in &closed {
            turn.forget(&portal_name(self.family, portal));
            self.sockets.release(portal.protocol(), *port);
        }
        closed.len()
    }

    fn report_rejected(&mut self, rejected: BTreeMap<String, String>) -> Vec<Rejected> {
        let before = std::mem::take(&mut self.rejected);
        self.rejected = rejected.keys().cloned().collect();
        let report = |(what, reason): (String, String)| {
            let is_repeated = before.contains(&what);
            Rejected { what, reason, is_repeated }
        };
        rejected.into_iter().map(report).collect()
    }

    fn failed(&self, error: IptablesError) -> BackendError {
        let counted = vec![Sample::increment(&RESTORE_FAILURES, self.family)];
        BackendError::new("syncing the iptables rules")
            .caused_by(error)
            .in_family(self.family)
            .counted(counted)
    }

    /// The ports of the sockets that a frontend's packets are sent to.
    fn ports_of(&self, key: &FrontendKey) -> Vec<u16> {
        let Some(wanted) = &self.wanted else { return Vec::new() };
        let ports: BTreeMap<&PortalId, u16> =
            self.portals.addresses().map(|(portal, address)| (portal, address.port())).collect();
        let routes = wanted.routes.iter().filter(|route| route.is_of(key));
        let mut found: Vec<u16> = routes.filter_map(|route| ports.get(&route.to).copied()).collect();
        found.sort_unstable();
        found.dedup();
        found
    }
}

impl<T: XTables + Send> Dataplane for UserspaceDataplane<T> {
    fn sync(&mut self, plan: &FamilyPlan, trigger: Trigger<'_>) -> Result<SyncReport, BackendError> {
        let handover = self.handover.clone();
        let mut turn = handover.turn();
        if turn.is_given() {
            return Ok(self.stand_by(plan, &mut turn));
        }
        let has_returned = self.returns != turn.returns();
        match trigger {
            Trigger::Changed(delta)
                if self.wanted.is_some() && !has_returned && is_about_endpoints(delta) =>
            {
                return Ok(self.change_endpoints(plan, delta));
            }
            Trigger::Changed(_) if !has_returned => {}
            // The rules are those of another process, or any program may have changed them.
            Trigger::Changed(_) | Trigger::Verify { .. } | Trigger::Repair { .. } => self.tables.doubt(),
        }
        self.bring_in_line(plan, &mut turn)
    }

    fn diff(&mut self, plan: &FamilyPlan) -> Result<Patch, BackendError> {
        let wanted = Wanted::from_plan(plan);
        let mut lines = Vec::new();
        for (portal, spec) in &wanted.portals {
            match self.portals.spec(portal) {
                None => lines.push(format!("listen for {}", describe(portal))),
                Some(now) if now != spec => lines.push(format!("endpoints of {}", describe(portal))),
                Some(_) => {}
            }
        }
        let superfluous = self.portals.keys().filter(|portal| !wanted.portals.contains_key(portal));
        lines.extend(superfluous.map(|portal| format!("close {}", describe(portal))));
        let routes: Vec<&Route> = wanted.routes.iter().collect();
        let rules = self.rules(plan, &routes);
        let correction = self.tables.compare(&rules).map_err(|error| self.failed(error))?;
        lines.extend(correction.text.as_str().lines().map(str::to_owned));
        Ok(Patch { lines })
    }

    /// Ports that another process had may be free, and clients may be forgotten.
    fn verify_interval(&self) -> Option<Duration> {
        Some(self.sync_period)
    }

    fn is_standing_by(&self) -> bool {
        self.handover.is_given()
    }

    fn cost(&self) -> Cost {
        if self.tables.portid().is_some() { Cost::Cpu } else { Cost::WallClock }
    }

    /// Flows end at our sockets, whatever the endpoint behind them is.
    fn forget_flows(&mut self, stale: StaleFlows) -> StaleFlows {
        stale.answered_by_host(|key| self.ports_of(key))
    }

    fn shutdown(&mut self, grace: Duration) {
        self.portals.wait_until_idle(grace);
        self.handover.end();
    }
}

/// Whether only endpoints behind sockets changed.
fn is_about_endpoints(delta: &PlanDelta) -> bool {
    let is_same = |replaced: &ferrule_plan::Replaced<_>| replaced.was == replaced.now;
    !delta.node && delta.frontends.values().all(is_same)
}

fn unserved(wanted: &Wanted) -> BTreeMap<String, String> {
    let reason = "SCTP is not relayed in userspace mode; the other ports are served".to_owned();
    wanted.unserved.iter().map(|owner| (owner.to_string(), reason.clone())).collect()
}

fn describe(portal: &PortalId) -> String {
    match portal {
        PortalId::Service(owner, _) => format!("{owner} ({})", owner.protocol),
        PortalId::Refusing(protocol) => format!("clients that are refused ({protocol})"),
    }
}

/// The claim that a route's destination would have.
fn claim_of(route: &Route) -> Claim {
    let (address, port) = match route.at {
        Destination::NodePort(address, port) => (address, port),
        Destination::Address(ip, port) | Destination::ExternalIp(ip, port) => (Some(ip), port),
    };
    Claim { address, protocol: route.owner.protocol, port }
}

impl Route {
    fn is_of(&self, key: &FrontendKey) -> bool {
        match (*key, self.at) {
            (
                FrontendKey::Address(ip, protocol, port),
                Destination::Address(at, number) | Destination::ExternalIp(at, number),
            ) => (ip, port) == (at, number) && protocol == self.owner.protocol,
            (
                FrontendKey::NodePort(protocol, port) | FrontendKey::LoopbackNodePort(protocol, port),
                Destination::NodePort(_, number),
            ) => port == number && protocol == self.owner.protocol,
            (
                FrontendKey::Address(..)
                | FrontendKey::UnmatchedPorts(_)
                | FrontendKey::NodePort(..)
                | FrontendKey::LoopbackNodePort(..),
                _,
            ) => false,
        }
    }
}
