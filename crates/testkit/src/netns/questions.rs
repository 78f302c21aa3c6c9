//! Compares the outcomes of packets in a world with the oracle's.
//!
//! The timeout is long where a response is expected and short where silence is, so that a busy machine causes no false
//! finding and a correct world takes little time.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use ferrule_kernel::conntrack::{Conntrack, UDP};
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::Family;
use ferrule_plan::{Delivery, Outcome, Packet};

use super::{NetError, NetWorld, Probe, Seen};

/// Timeout where silence is expected.
const SILENCE_TIMEOUT: Duration = Duration::from_millis(150);
/// Timeout where a response is expected. A refusal to the host itself can be lost; TCP's next attempt follows after a
/// second.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Each endpoint of a pool gets this many tries a round; with eight rounds the chance of missing one is 10⁻²⁷.
const TRIES: usize = 8;
const ROUNDS: usize = 8;
/// A client that does not stick shows it at once: sixteen tries go to one of two endpoints once in 32,768 times.
const STICKY_ROUNDS: usize = 1;

/// A packet and the oracle's outcome for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Sent for real.
    pub packet: Packet,
    /// The oracle's outcome.
    pub expected: Outcome,
}

/// The result of [`NetWorld::ask`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Number of questions whose outcome is right.
    pub agreed: usize,
    /// Questions with a wrong outcome.
    pub disagreements: Vec<Disagreement>,
    /// Questions that cannot be asked on this machine, and why.
    pub unasked: Vec<Disagreement>,
}

/// A question without the oracle's outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disagreement {
    /// Index of the question.
    pub at: usize,
    /// Copied from the list.
    pub question: Question,
    /// The actual outcome.
    pub found: String,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Question { packet, expected } = &self.question;
        let to = match packet.port {
            Some((protocol, port)) => format!("{}/{protocol}", SocketAddr::new(packet.to, port)),
            None => format!("{} icmp", packet.to),
        };
        write!(f, "{} → {to}: expected {expected}, found {}", packet.from, self.found)
    }
}

/// A question and the distinct outcomes so far.
struct Asked<'a> {
    at: usize,
    question: &'a Question,
    seen: BTreeSet<Seen>,
}

impl Asked<'_> {
    fn is_sticky(&self) -> bool {
        matches!(self.question.expected, Outcome::Forwarded { sticky: Some(_), .. })
    }
}

impl NetWorld {
    /// Asks all questions at once, repeats those with several right answers until each was seen, and compares.
    pub fn ask(&self, questions: &[Question]) -> Result<Answers, NetError> {
        let asked = questions.iter().enumerate();
        let asked: Vec<Asked<'_>> =
            asked.map(|(at, question)| Asked { at, question, seen: BTreeSet::new() }).collect();
        self.forget_udp_flows()?;
        let (mut sticky, mut others): (Vec<_>, Vec<_>) = asked.into_iter().partition(Asked::is_sticky);
        self.ask_until_seen(&mut others, ROUNDS)?;
        // One after the other: a client's first two connections at the same moment may well go to two endpoints, and in
        // iptables mode a client that reached an endpoint by another address of the Service sticks to that one from then on.
        for one in sticky.chunks_mut(1) {
            self.ask_until_seen(one, STICKY_ROUNDS)?;
        }
        let mut asked: Vec<Asked<'_>> = sticky.into_iter().chain(others).collect();
        asked.sort_by_key(|asked| asked.at);
        let mut answers = Answers::default();
        for asked in asked {
            self.judge(&asked, &mut answers);
        }
        Ok(answers)
    }

    /// Asks once; repeats questions with several right outcomes until each was seen.
    fn ask_until_seen(&self, asked: &mut [Asked<'_>], rounds: usize) -> Result<(), NetError> {
        self.ask_once(asked, |_| 1)?;
        for _ in 0..rounds {
            if asked.iter().all(|asked| self.repeats(asked) == 0) {
                break;
            }
            self.ask_once(asked, |asked| self.repeats(asked))?;
        }
        Ok(())
    }

    /// Deletes the node's UDP flows, which would follow earlier rules, as a proxy does after a change.
    fn forget_udp_flows(&self) -> Result<(), NetError> {
        let forget = || {
            let mut conntrack = Conntrack::open()?;
            for family in [Family::Ip, Family::Ip6] {
                for flow in conntrack.flows(family, UDP)?.items {
                    conntrack.delete(&flow)?;
                }
            }
            Ok::<_, NetlinkError>(())
        };
        // A kernel that cannot list flows has none that matter here.
        self.node().run(forget).map(drop)
    }

    /// Whether the outcomes of a packet are the oracle's; if not, the difference.
    pub fn compare(&self, question: &Question, seen: &BTreeSet<Seen>) -> Result<(), String> {
        if let Some(odd) = seen.iter().find(|seen| !self.may_see(question, seen)) {
            return Err(odd.to_string());
        }
        let Outcome::Forwarded { to, sticky } = &question.expected else { return Ok(()) };
        match (sticky, seen.len()) {
            (Some(_), 1) => Ok(()),
            (Some(_), several) => {
                let seen: Vec<String> = seen.iter().map(ToString::to_string).collect();
                Err(format!("{several} endpoints ({}), though the client should keep one", seen.join(", ")))
            }
            (None, _) => match to.iter().find(|delivery| !is_among(delivery, seen)) {
                Some(missing) => Err(format!("nothing ever went to {missing}")),
                None => Ok(()),
            },
        }
    }

    fn ask_once(&self, asked: &mut [Asked<'_>], times: impl Fn(&Asked<'_>) -> usize) -> Result<(), NetError> {
        let mut probes = Vec::new();
        let mut askers = Vec::new();
        for (at, asked) in asked.iter().enumerate() {
            let probe =
                Probe { packet: asked.question.packet.clone(), timeout: self.timeout(asked.question) };
            askers.extend(std::iter::repeat_n(at, times(asked)));
            probes.resize(askers.len(), probe);
        }
        for (asker, seen) in askers.into_iter().zip(self.probe_all(&probes)?) {
            asked[asker].seen.insert(seen);
        }
        Ok(())
    }

    fn timeout(&self, question: &Question) -> Duration {
        if self.may_see(question, &Seen::Silent) { SILENCE_TIMEOUT } else { RESPONSE_TIMEOUT }
    }

    /// Number of further probes for a question. None once an outcome was wrong.
    fn repeats(&self, asked: &Asked<'_>) -> usize {
        let Outcome::Forwarded { to, sticky } = &asked.question.expected else { return 0 };
        let wrong = asked.seen.iter().any(|seen| !self.may_see(asked.question, seen));
        let all_seen = to.iter().all(|delivery| is_among(delivery, &asked.seen));
        let kept = sticky.is_some() && asked.seen.len() > 1;
        if wrong || all_seen || kept { 0 } else { TRIES * to.len() }
    }

    fn may_see(&self, question: &Question, seen: &Seen) -> bool {
        let packet = &question.packet;
        match (&question.expected, seen) {
            (Outcome::Dropped, seen) => *seen == Seen::Silent,
            (Outcome::Rejected, seen) => seen == self.refusal(),
            (Outcome::Untouched, seen) => *seen == self.without_rules(packet),
            (Outcome::Forwarded { to, .. }, Seen::Answered { by, source_seen }) => {
                to.iter().any(|delivery| {
                    delivery.endpoint == *by && self.is_right_source(packet, delivery, *source_seen)
                })
            }
            (Outcome::Forwarded { .. }, _) => false,
        }
    }

    /// The node's own packets come from the node whether masqueraded or not.
    fn is_right_source(&self, packet: &Packet, delivery: &Delivery, seen: std::net::IpAddr) -> bool {
        if delivery.masqueraded || self.spec().is_of_node(packet.from) {
            self.spec().node.contains(&seen) || self.is_on_node(seen)
        } else {
            seen == packet.from
        }
    }

    /// In ipvs mode the node has the addresses of Services too, and Linux may choose one of them as the source.
    fn is_on_node(&self, address: std::net::IpAddr) -> bool {
        let found = self.node().run(ferrule_kernel::interfaces::addresses);
        matches!(found, Ok(Ok(found)) if found.iter().any(|found| found.address == address))
    }

    fn judge(&self, asked: &Asked<'_>, answers: &mut Answers) {
        let finding = |found: String| Disagreement { at: asked.at, question: asked.question.clone(), found };
        let unsupported = asked.seen.iter().find_map(|seen| match seen {
            Seen::Unsupported(why) => Some(why.clone()),
            _ => None,
        });
        match (unsupported, self.compare(asked.question, &asked.seen)) {
            (Some(why), _) => answers.unasked.push(finding(why)),
            (None, Err(found)) => answers.disagreements.push(finding(found)),
            (None, Ok(())) => answers.agreed += 1,
        }
    }
}

fn is_among(delivery: &Delivery, seen: &BTreeSet<Seen>) -> bool {
    seen.iter().any(|seen| matches!(seen, Seen::Answered { by, .. } if *by == delivery.endpoint))
}
