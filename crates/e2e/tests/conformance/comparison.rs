//! The same packets to both nodes: what becomes of them must be the same.
//!
//! Nothing here knows what is right. A packet that may go to several endpoints is sent until both nodes have shown the
//! same ones; where they differ after that, everything is asked once more with much more patience, so that a busy machine
//! is no finding.

use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ferrule_plan::{Outcome, Packet};
use ferrule_testkit::World;
use ferrule_testkit::netns::Seen;

use crate::pair::Pair;

const BRIEFLY: Duration = Duration::from_millis(200);
const LONGER: Duration = Duration::from_millis(500);
const TRIES: usize = 10;
const ROUNDS: usize = 6;
/// After so many rounds without news what was seen is taken for all there is; silence takes long, and changes seldom.
const QUIET_ROUNDS: usize = 12;
const SILENT_ROUNDS: usize = 2;

/// For what differs. Where the kernel has IPVS the processor is an imitated one, and stands still for seconds on a busy machine.
fn long() -> Duration {
    Duration::from_secs(if std::env::var_os("FERRULE_TEST_IPVS").is_some() { 20 } else { 4 })
}

/// A packet that finds one thing on one node and another on the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    pub packet: Packet,
    pub theirs: BTreeSet<Seen>,
    pub ours: BTreeSet<Seen>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let told =
            |seen: &BTreeSet<Seen>| seen.iter().map(ToString::to_string).collect::<Vec<_>>().join(" | ");
        let (from, to) = (self.packet.from, destination(&self.packet));
        write!(
            f,
            "{from} → {to}\n    kube-proxy: {}\n    Ferrule:    {}",
            told(&self.theirs),
            told(&self.ours)
        )
    }
}

/// As a story writes it.
pub fn destination(packet: &Packet) -> String {
    match packet.port {
        Some((ferrule_model::Protocol::Tcp, port)) => SocketAddr::new(packet.to, port).to_string(),
        Some((protocol, port)) => format!("{}/{protocol}", SocketAddr::new(packet.to, port)).to_lowercase(),
        None => format!("{} icmp", packet.to),
    }
}

/// What both nodes have shown of a packet so far.
struct Asked {
    packet: Packet,
    is_sticky: bool,
    can_reach_itself: bool,
    theirs: BTreeSet<Seen>,
    ours: BTreeSet<Seen>,
    quiet_rounds: usize,
}

impl Asked {
    fn new(packet: Packet, pair: &Pair, world: &World) -> Self {
        let interface = pair.ours.net.interface_of(packet.from).map(str::to_owned);
        let arriving = Packet { interface, ..packet.clone() };
        let (is_sticky, can_reach_itself) = match world.outcome(&arriving) {
            Outcome::Forwarded { to, sticky } => {
                (sticky.is_some(), to.iter().any(|delivery| delivery.endpoint.ip() == packet.from))
            }
            _ => (false, false),
        };
        let (theirs, ours) = (BTreeSet::new(), BTreeSet::new());
        Self { packet, is_sticky, can_reach_itself, theirs, ours, quiet_rounds: 0 }
    }

    /// Whether asking again may still change the verdict.
    fn is_open(&self) -> bool {
        let is_silent = self.theirs.contains(&Seen::Silent) || self.ours.contains(&Seen::Silent);
        !self.agrees() && self.quiet_rounds < if is_silent { SILENT_ROUNDS } else { QUIET_ROUNDS }
    }

    fn is_silent(&self) -> bool {
        let silence = BTreeSet::from([Seen::Silent]);
        self.theirs == silence && self.ours == silence
    }

    fn is_answered(&self) -> bool {
        self.theirs.iter().any(|seen| matches!(seen, Seen::Answered { .. }))
    }

    /// A client of a Service with affinity has one endpoint on each node, and not the same.
    fn agrees(&self) -> bool {
        self.theirs == self.ours || self.is_sticky && self.one_each()
    }

    /// Whether each node showed one thing always: an endpoint that answered, and saw the client come from the same
    /// address on both. Who can reach itself is masqueraded then, or hears nothing.
    fn one_each(&self) -> bool {
        match (one(&self.theirs), one(&self.ours)) {
            (Some(theirs), Some(ours)) if self.can_reach_itself => {
                [theirs, ours].iter().all(|seen| matches!(seen, Seen::Answered { .. } | Seen::Silent))
            }
            (Some(theirs), Some(ours)) => source(theirs)
                .zip(source(ours))
                .is_some_and(|(theirs, ours)| self.is_same_source(theirs, ours)),
            _ => false,
        }
    }

    /// Where the kernel masquerades with any service address, with which one depends on the interface, and so on the endpoint.
    fn is_same_source(&self, theirs: IpAddr, ours: IpAddr) -> bool {
        let is_any = theirs.is_unspecified() || ours.is_unspecified();
        theirs == ours || is_any && theirs != self.packet.from && ours != self.packet.from
    }
}

fn one(seen: &BTreeSet<Seen>) -> Option<&Seen> {
    seen.first().filter(|_| seen.len() == 1)
}

fn source(seen: &Seen) -> Option<IpAddr> {
    match seen {
        Seen::Answered { source_seen, .. } => Some(*source_seen),
        _ => None,
    }
}

/// What came of a comparison.
pub struct Compared {
    /// How many packets found the same on both nodes.
    pub agreed: usize,
    /// How many were answered by an endpoint.
    pub answered: usize,
    pub different: Vec<Difference>,
}

/// How many packets were the same on both, and which were not.
pub fn compare(pair: &Pair, world: &World, packets: Vec<Packet>) -> Compared {
    let mut asked: Vec<Asked> = packets.into_iter().map(|packet| Asked::new(packet, pair, world)).collect();
    // Alone at first: two connections of a client at the same moment may go to two endpoints, even with affinity.
    ask(pair, asked.iter_mut().collect(), 1, BRIEFLY);
    ask(pair, asked.iter_mut().filter(|asked| asked.is_answered()).collect(), TRIES, BRIEFLY);
    // Two that are both just slow look alike.
    ask(pair, asked.iter_mut().filter(|asked| asked.is_silent()).collect(), 1, LONGER);
    for _ in 0..ROUNDS {
        let open: Vec<&mut Asked> = asked.iter_mut().filter(|asked| !asked.agrees()).collect();
        ask(pair, open, TRIES, BRIEFLY);
    }
    let mut odd: Vec<&mut Asked> = asked.iter_mut().filter(|asked| !asked.agrees()).collect();
    for asked in &mut odd {
        asked.theirs.clear();
        asked.ours.clear();
        asked.quiet_rounds = 0;
    }
    ask(pair, odd, 1, long());
    while asked.iter().any(Asked::is_open) {
        ask(pair, asked.iter_mut().filter(|asked| asked.is_open()).collect(), TRIES, long());
    }
    let total = asked.len();
    let answered = asked.iter().filter(|asked| asked.is_answered()).count();
    let odd = asked.into_iter().filter(|asked| !asked.agrees());
    let different: Vec<Difference> =
        odd.map(|Asked { packet, theirs, ours, .. }| Difference { packet, theirs, ours }).collect();
    Compared { agreed: total - different.len(), answered, different }
}

/// Sends packets to both nodes at the same time.
fn ask(pair: &Pair, open: Vec<&mut Asked>, tries: usize, patience: Duration) {
    if open.is_empty() {
        return;
    }
    let packets: Vec<Packet> = open.iter().map(|asked| asked.packet.clone()).collect();
    let (theirs, ours) = std::thread::scope(|scope| {
        let theirs = scope.spawn(|| pair.theirs.ask(&packets, tries, patience));
        let ours = pair.ours.ask(&packets, tries, patience);
        (theirs.join().expect("kube-proxy's node"), ours)
    });
    for ((asked, theirs), ours) in open.into_iter().zip(theirs).zip(ours) {
        let before = (asked.theirs.len(), asked.ours.len());
        asked.theirs.extend(theirs);
        asked.ours.extend(ours);
        let has_news = before != (asked.theirs.len(), asked.ours.len());
        asked.quiet_rounds = if has_news { 0 } else { asked.quiet_rounds + 1 };
    }
}
