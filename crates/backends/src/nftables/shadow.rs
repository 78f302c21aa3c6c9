//! Compares a plan with the table `kube-proxy`, whichever program wrote it, by what becomes of packets.
//!
//! kube-proxy has chains for Services and endpoints where we have elements, so there is nothing to compare rule by rule. For each
//! frontend a packet of each kind of sender is followed, and so are packets to whatever the table has an entry for.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use ferrule_kernel::nft::ruleset::{ElementValue, Ruleset, SeenSet};
use ferrule_kernel::nft::{Family, NftClient, Value};
use ferrule_model::{IpFamily, Protocol};
use ferrule_plan::{FamilyPlan, FrontendKey, outcome};

use super::packet_path::{Table, outcomes};
use crate::family::ip_family;
use crate::shadow::PLANNED;
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

    fn read(&mut self) -> Result<Option<Ruleset>, BackendError> {
        let failed = |error| {
            BackendError::new("reading the nftables table kube-proxy").caused_by(error).in_family(self.family)
        };
        self.client.ruleset().map_err(failed)
    }
}

impl Dataplane for ShadowTable {
    /// Never asked: it only reads.
    fn sync(&mut self, _: &FamilyPlan, _: Trigger<'_>) -> Result<SyncReport, BackendError> {
        Ok(SyncReport::default())
    }

    fn diff(&mut self, plan: &FamilyPlan) -> Result<Patch, BackendError> {
        let Some(ruleset) = self.read()? else { return Ok(Patch { lines: vec![NO_TABLE.to_owned()] }) };
        let lines = differences(&ruleset, plan).map_err(|error| error.in_family(self.family))?;
        Ok(Patch { lines })
    }

    fn held(&mut self, plan: &FamilyPlan, key: Option<&FrontendKey>) -> Result<HeldFrontend, BackendError> {
        let planned = key.and_then(|key| Some(probes::of_frontend(plan, key, plan.frontend(key)?)));
        let Some(probes) = planned.filter(|probes| !probes.is_empty()) else {
            return Err(BackendError::new(
                "shadow mode compares what is planned, and nothing is planned for this packet",
            ));
        };
        let Some(ruleset) = self.read()? else {
            return Ok(HeldFrontend { missing: vec![NO_TABLE.to_owned()], ..HeldFrontend::default() });
        };
        let table = Table::new(&ruleset);
        let differing = probes.iter().filter_map(|probe| difference(&table, plan, probe)).collect();
        Ok(HeldFrontend { differing, ..HeldFrontend::default() })
    }

    fn verify_interval(&self) -> Option<Duration> {
        None
    }
}

/// Instead of a line for every packet.
const NO_TABLE: &str = "there is no table kube-proxy: nothing is served by nftables rules";
/// Nothing else happens meanwhile.
const MAX_TIME: Duration = Duration::from_secs(20);
/// More lines than this tell no more.
const MAX_LINES: usize = 10_000;

/// What becomes of packets otherwise than planned, a line each.
pub fn differences(ruleset: &Ruleset, plan: &FamilyPlan) -> Result<Vec<String>, BackendError> {
    let (table, began) = (Table::new(ruleset), Instant::now());
    let planned = plan.frontends().flat_map(|(key, frontend)| probes::of_frontend(plan, key, frontend));
    let others = probes::unallocated(plan).into_iter().chain(unplanned(ruleset, plan));
    let mut lines = Vec::new();
    for probe in planned.chain(others) {
        lines.extend(difference(&table, plan, &probe));
        if began.elapsed() > MAX_TIME {
            let doing = format!(
                "comparing the nftables table kube-proxy with the plan takes longer than {MAX_TIME:?}"
            );
            return Err(BackendError::new(doing));
        }
        if lines.len() == MAX_LINES {
            lines.push("there are more differences".to_owned());
            break;
        }
    }
    Ok(lines)
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
    Some(format!("{} from {}{PLANNED}{wanted}, found {found}", destination(probe), probe.sender))
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
        let counts = |value: &ElementValue| match value {
            ElementValue::Present | ElementValue::To(Value::Verdict(_)) => true,
            ElementValue::To(Value::Data(_)) | ElementValue::RangeEnd | ElementValue::Other => false,
        };
        let entries = set.elements.iter().filter(|(_, value)| counts(value));
        keys.extend(entries.filter_map(|(key, _)| frontend_of(set, key, plan.node.family)));
    }
    keys.retain(|key| plan.frontend(key).is_none());
    let own = plan.node.host_addresses.iter().copied().find(|ip| !ip.is_loopback());
    let destination = |key| match key {
        FrontendKey::Address(ip, protocol, port) => Some((ip, Some((protocol, port)))),
        FrontendKey::NodePort(protocol, port) => own.map(|ip| (ip, Some((protocol, port)))),
        FrontendKey::UnmatchedPorts(ip) => Some((ip, None)),
        FrontendKey::LoopbackNodePort(..) => None,
    };
    let targets = keys.into_iter().filter_map(destination);
    targets.map(|(ip, port)| probes::from_outside(&plan.node, ip, port)).collect()
}

/// The frontend that a key of a set stands for, if it has the form of one: an address, a port, or both.
fn frontend_of(set: &SeenSet, key: &[u8], family: IpFamily) -> Option<FrontendKey> {
    let address_bytes = match family {
        IpFamily::V4 => 4,
        IpFamily::V6 => 16,
    };
    if set.key_length == address_bytes {
        return Some(FrontendKey::UnmatchedPorts(ip_of(key)?));
    }
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
