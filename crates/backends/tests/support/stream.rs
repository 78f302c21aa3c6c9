//! A stream of plans that two processes agree on: plan number so-and-so is the same for both, and so is how far one of them got.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use ferrule_testkit::World;

use super::lab;

/// How many endpoints take turns in the Service `web`; each plan has one or two of them.
pub const TURNS: u8 = 12;
/// Endpoints of the Service `sticky` that are always there, and how many come and go.
pub const PERMANENT: u8 = 3;
pub const PASSING: u8 = 3;
/// Services without clients, so that there is more to write.
const OTHERS: u64 = 60;

/// The endpoints of `web` in a plan, by number.
pub fn web(plan: u64) -> Vec<u8> {
    let turn = |plan: u64| u8::try_from(plan % u64::from(TURNS)).unwrap_or_default() + 1;
    let second = mixed(plan).is_multiple_of(2).then(|| turn(plan + 1));
    std::iter::once(turn(plan)).chain(second).collect()
}

/// The endpoints of `sticky` in a plan, by number.
pub fn sticky(plan: u64) -> Vec<u8> {
    let passing = (1..=PASSING).filter(|number| mixed(plan + u64::from(*number)).is_multiple_of(3));
    (1..=PERMANENT).chain(passing.map(|number| PERMANENT + number)).collect()
}

/// The whole world of a plan, planned.
pub fn world(plan: u64) -> World {
    let mut facts = String::from(
        "service web NodePort clusterIP 10.96.0.10 port 80→8080 nodePort 30080\n\
         service sticky clusterIP 10.96.0.11 port 80→8080 sessionAffinity ClientIP 600\n",
    );
    facts.extend(web(plan).into_iter().map(|number| endpoint("web", 1, number)));
    facts.extend(sticky(plan).into_iter().map(|number| endpoint("sticky", 2, number)));
    facts.extend((0..OTHERS).map(|other| self::other(plan, other)));
    lab::world(&facts)
}

/// What is to be said to get from the plan before to this one.
pub fn step(plan: u64) -> String {
    let turns = |service: &str, net: u8, was: Vec<u8>, now: Vec<u8>| {
        let coming = now.iter().filter(|number| !was.contains(number));
        let coming = coming.map(|number| endpoint(service, net, *number));
        let going = was.iter().filter(|number| !now.contains(number));
        let going = going.map(|number| format!("gone endpoint {service} 10.244.{net}.{number}\n"));
        coming.chain(going).collect::<String>()
    };
    turns("web", 1, web(plan - 1), web(plan))
        + &turns("sticky", 2, sticky(plan - 1), sticky(plan))
        + &other(plan, plan % OTHERS)
}

fn endpoint(service: &str, net: u8, number: u8) -> String {
    let node = if number.is_multiple_of(2) { "a" } else { "b" };
    format!("endpoint {service} 10.244.{net}.{number} node {node}\n")
}

/// One of the other Services, in the form it was given last: each gets another every sixty plans.
fn other(plan: u64, number: u64) -> String {
    let last = plan.saturating_sub((plan + OTHERS - number) % OTHERS);
    let form = match mixed(last + number) % 4 {
        0 => "",
        1 => " sessionAffinity ClientIP 60",
        2 => " externalIP 203.0.113.9",
        _ => " externalIP 203.0.113.9 externalTrafficPolicy Local",
    };
    format!("service other-{number} NodePort clusterIP 10.96.1.{number} port {}→8080{form}\n", 1000 + number)
        + &format!("endpoint other-{number} 10.244.3.{} node a\n", number + 1)
}

/// Numbers that look random, the same in both processes.
pub fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// How far a process got, in a file: what it wrote is seen at once by others, and outlives it.
pub struct Progress(File);

impl Progress {
    pub fn open(path: &Path) -> io::Result<Self> {
        File::options().read(true).write(true).create(true).truncate(false).open(path).map(Self)
    }

    /// The last plan that was begun, and the last that was done.
    pub fn begun(&self) -> u64 {
        self.number(0)
    }

    pub fn done(&self) -> u64 {
        self.number(1)
    }

    pub fn set_begun(&self, plan: u64) {
        self.set(0, plan);
    }

    pub fn set_done(&self, plan: u64) {
        self.set(1, plan);
    }

    fn number(&self, at: u64) -> u64 {
        let mut bytes = [0; 8];
        // Nothing written yet is plan zero.
        let _ = self.0.read_exact_at(&mut bytes, at * 8);
        u64::from_le_bytes(bytes)
    }

    fn set(&self, at: u64, plan: u64) {
        self.0.write_all_at(&plan.to_le_bytes(), at * 8).expect("the file of progress");
    }
}
