//! Compares a plan with the table `kube-proxy`, whichever program wrote it, by what becomes of packets.
//!
//! kube-proxy has chains for Services and endpoints where we have elements, so there is nothing to compare rule by rule. For each
//! frontend a packet of each kind of sender is followed, and so are packets to whatever the table has an entry for.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::Duration;

use ferrule_kernel::nft::ruleset::{ElementValue, Ruleset, SeenSet};
use ferrule_kernel::nft::{Family, NftClient, Value};
use ferrule_model::{IpFamily, Protocol};
use ferrule_plan::{FamilyPlan, FrontendKey, outcome};

use super::packet_path::{Table, outcomes};
use crate::family::ip_family;
use crate::shadow::probes::{self, Probe};
use crate::{BackendError, Dataplane, HeldFrontend, Patch, SyncReport, Trigger};

/// Reads a family's table.
pub struct ShadowTable {
    client: NftClient,
    family: IpFamily,
}

impl ShadowTable {
    /// Opens it for reading.
    pub fn open(family: Family) -> Result<Self, BackendError> {
        let failed = |error| BackendError::new("opening the nftables tables").caused_by(error);
        Ok(Self { client: NftClient::open(family).map_err(failed)?, family: ip_family(family) })
    }

    fn read(&mut self) -> Result<Ruleset, BackendError> {
        let failed = |error| {
            BackendError::new("reading the nftables table kube-proxy").caused_by(error).in_family(self.family)
        };
        Ok(self.client.ruleset().map_err(failed)?.unwrap_or_default())
    }
}

impl Dataplane for ShadowTable {
    /// Never asked: it only reads.
    fn sync(&mut self, _: &FamilyPlan, _: Trigger<'_>) -> Result<SyncReport, BackendError> {
        Ok(SyncReport::default())
    }

    fn diff(&mut self, plan: &FamilyPlan) -> Result<Patch, BackendError> {
        Ok(Patch { lines: differences(&self.read()?, plan) })
    }

    fn held(&mut self, plan: &FamilyPlan, key: Option<&FrontendKey>) -> Result<HeldFrontend, BackendError> {
        let Some((key, frontend)) = key.and_then(|key| Some((key, plan.frontend(key)?))) else {
            return Ok(HeldFrontend::default());
        };
        let ruleset = self.read()?;
        let table = Table::new(&ruleset);
        let found = probes::of_frontend(plan, key, frontend).into_iter();
        let differing = found.filter_map(|probe| difference(&table, plan, &probe)).collect();
        Ok(HeldFrontend { differing, ..HeldFrontend::default() })
    }

    fn verify_interval(&self) -> Option<Duration> {
        None
    }
}

/// What becomes of packets otherwise than planned, a line each.
pub fn differences(ruleset: &Ruleset, plan: &FamilyPlan) -> Vec<String> {
    let table = Table::new(ruleset);
    let planned = plan.frontends().flat_map(|(key, frontend)| probes::of_frontend(plan, key, frontend));
    let mut lines: Vec<String> = planned.filter_map(|probe| difference(&table, plan, &probe)).collect();
    lines.extend(probes::unallocated(plan).iter().filter_map(|probe| difference(&table, plan, probe)));
    lines.extend(unplanned(ruleset, plan).iter().filter_map(|probe| difference(&table, plan, probe)));
    lines
}

fn difference(table: &Table<'_>, plan: &FamilyPlan, probe: &Probe) -> Option<String> {
    let wanted = outcome(plan, &probe.packet);
    let found = match outcomes(table, &plan.node, &probe.packet) {
        Ok(found) if found.is(&wanted) => return None,
        Ok(found) => in_words(found.sometimes.iter().fold(found.outcome.to_string(), |mut text, other| {
            let _ = write!(text, ", or {other}");
            text
        })),
        Err(error) => format!("not known: {error}"),
    };
    Some(format!("{} from {}: planned {wanted}, found {found}", destination(probe), probe.sender))
}

/// No text at all is what an outcome without endpoints has.
fn in_words(text: String) -> String {
    if text.is_empty() { "nothing".to_owned() } else { text }
}

fn destination(probe: &Probe) -> String {
    let to = probe.packet.to;
    match probe.packet.port {
        Some((protocol, port)) => format!("{}/{protocol}", std::net::SocketAddr::new(to, port)),
        None => format!("{to} without a port"),
    }
}

/// Packets to what the table has entries for and the plan has no frontend.
fn unplanned(ruleset: &Ruleset, plan: &FamilyPlan) -> Vec<Probe> {
    let mut keys = BTreeSet::new();
    for set in ruleset.sets.values().filter(|set| !set.is_dynamic && !set.is_interval) {
        let leads_somewhere = |value: &ElementValue| matches!(value, ElementValue::To(Value::Verdict(_)));
        let entries = set.elements.iter().filter(|(_, value)| leads_somewhere(value));
        keys.extend(entries.filter_map(|(key, _)| frontend_of(set, key, plan.node.family)));
    }
    keys.retain(|key| plan.frontend(key).is_none());
    let own = plan.node.host_addresses.iter().copied().find(|ip| !ip.is_loopback());
    let probe = |key| match key {
        FrontendKey::Address(ip, protocol, port) => Some((ip, protocol, port)),
        FrontendKey::NodePort(protocol, port) => own.map(|ip| (ip, protocol, port)),
        FrontendKey::UnmatchedPorts(_) | FrontendKey::LoopbackNodePort(..) => None,
    };
    let targets = keys.into_iter().filter_map(probe);
    targets.map(|(ip, protocol, port)| probes::from_outside(&plan.node, ip, Some((protocol, port)))).collect()
}

/// The frontend that a key of a map stands for, if it has the form of one: address, protocol, port, or the last two.
fn frontend_of(set: &SeenSet, key: &[u8], family: IpFamily) -> Option<FrontendKey> {
    let address_bytes = match family {
        IpFamily::V4 => 4,
        IpFamily::V6 => 16,
    };
    let (address, rest) = match set.key_length {
        8 => (None, key),
        length if length == address_bytes + 8 => (Some(key.get(..address_bytes)?), key.get(address_bytes..)?),
        _ => return None,
    };
    let protocol = [Protocol::Tcp, Protocol::Udp, Protocol::Sctp];
    let protocol = protocol.into_iter().find(|known| Some(&known.number()) == rest.first())?;
    let port = u16::from_be_bytes([*rest.get(4)?, *rest.get(5)?]);
    Some(match address {
        Some(bytes) => FrontendKey::Address(ip_of(bytes)?, protocol, port),
        None => FrontendKey::NodePort(protocol, port),
    })
}

fn ip_of(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from)).ok()
}
