//! A world whose table is kept step by step, in the namespace of this thread, and what each step changed in the kernel.
//!
//! What changed is read back from the kernel and held against what the reconciler reports, so that neither can be wrong alone.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ferrule_backends::nftables::names::SetName;
use ferrule_backends::nftables::{Reconciler, SyncError};
use ferrule_backends::{SyncOutcome, SyncReport, Trigger};
use ferrule_kernel::nft::{Chain, KeyBytes, Name, NftClient, Value};
use ferrule_kernel::port::NftReader as _;
use ferrule_kernel::port::NftTables;
use ferrule_model::IpFamily;
use ferrule_plan::{FamilyPlan, PlanDelta};
use ferrule_testkit::World;

use super::client;

/// A node with a pod range and a service range, as most tests want it.
pub const NODE: &str =
    "node a addresses 192.0.2.1,fd00::1 podCIDR 10.244.1.0/24\nserviceCIDR 10.96.0.0/12,fd96::/112";

/// A world and the table that is kept for it.
pub struct Lab<K = NftClient> {
    pub world: World,
    pub reconciler: Reconciler<K>,
    family: IpFamily,
    /// Looks at the table beside the reconciler.
    eyes: NftClient,
    seen: Contents,
}

/// All that is in a table but the stamp, which changes with every commit, and what packets write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Contents {
    elements: BTreeMap<Name, BTreeMap<KeyBytes, Option<Value>>>,
    chains: BTreeMap<Name, Option<Chain>>,
}

/// What a step did.
#[derive(Debug)]
pub struct Done {
    /// What the reconciler says.
    pub report: SyncReport,
    /// What the kernel says: `services ~1, endpoints +2 -1, chain cluster-2 new`.
    pub changed: String,
}

/// A world of a node and these facts.
pub fn world(facts: &str) -> World {
    let mut world = World::default();
    let settings =
        "mode nftables\ndetectLocal ClusterCIDR 10.244.0.0/16,fd44::/32\nnodePortAddresses primary";
    world.run_proxy(settings).expect("settings");
    world.say(NODE).and_then(|()| world.say(facts)).expect("facts");
    world.settle();
    world
}

impl Lab {
    /// A world of these facts, programmed.
    pub fn new(facts: &str) -> Self {
        Self::with(world(facts), client(IpFamily::V4))
    }
}

impl<K: NftTables> Lab<K> {
    /// A world, programmed through this kernel.
    pub fn with(world: World, kernel: K) -> Self {
        let family = match kernel.family() {
            ferrule_kernel::nft::Family::Ip => IpFamily::V4,
            ferrule_kernel::nft::Family::Ip6 => IpFamily::V6,
        };
        let (reconciler, eyes) = (Reconciler::new(kernel), client(family));
        let mut lab = Self { world, reconciler, family, eyes, seen: Contents::default() };
        // A kernel that fails on purpose may do so now.
        let _ = lab.verify();
        lab.seen = Contents::read(&mut lab.eyes);
        lab
    }

    pub fn plan(&self) -> &FamilyPlan {
        self.world.family(self.family).expect("the family is served")
    }

    /// Says something new, and what that changed in the kernel.
    pub fn then(&mut self, facts: &str) -> Done {
        let report = self.try_then(facts).expect("a change");
        self.done(report)
    }

    /// The same, where it may fail.
    pub fn try_then(&mut self, facts: &str) -> Result<SyncReport, SyncError> {
        let delta = self.say(facts);
        let plan = self.world.family(self.family).expect("the family is served");
        self.reconciler.sync(plan, Trigger::Changed(&delta))
    }

    /// Says something new without programming it.
    pub fn say(&mut self, facts: &str) -> PlanDelta {
        let step = self.world.then(facts).expect("facts");
        step.deltas.get(self.family).cloned().expect("the family is served")
    }

    /// Makes sure that all is as it should be.
    pub fn verify(&mut self) -> Result<SyncReport, SyncError> {
        let plan = self.world.family(self.family).expect("the family is served");
        self.reconciler.sync(plan, Trigger::verify())
    }

    /// Repairs, as after a notification of a foreign commit.
    pub fn repair(&mut self) -> Result<SyncReport, SyncError> {
        let plan = self.world.family(self.family).expect("the family is served");
        self.reconciler.sync(plan, Trigger::repair())
    }

    /// Runs what the last sync deferred.
    pub fn run_deferred(&mut self) -> Done {
        let report = self.reconciler.run_deferred().expect("the end of a change");
        self.done(report)
    }

    /// What changed since the last time.
    pub fn done(&mut self, report: SyncReport) -> Done {
        let now = Contents::read(&mut self.eyes);
        let difference = self.seen.difference(&now);
        self.seen = now;
        if report.outcome == SyncOutcome::Incremental {
            let with_stamp = (difference.written + report.commits, difference.removed + report.commits);
            assert_eq!((report.written, report.removed), with_stamp, "{report:?}: {}", difference.text);
        }
        Done { report, changed: difference.text }
    }

    /// What is there now.
    pub fn contents(&mut self) -> Contents {
        Contents::read(&mut self.eyes)
    }

    /// How many elements a set has.
    pub fn count(&mut self, set: SetName) -> usize {
        self.eyes.elements(&set.name()).expect("elements").unwrap_or_default().elements.len()
    }
}

/// The difference between two tables.
#[derive(Default)]
struct Difference {
    text: String,
    written: usize,
    removed: usize,
}

impl Contents {
    fn read(eyes: &mut NftClient) -> Self {
        let mut contents = Self::default();
        let unread = [SetName::Stamp.name(), SetName::Affinity.name()];
        for set in eyes.sets().expect("sets").into_iter().filter(|set| !unread.contains(&set.name)) {
            let seen = eyes.elements(&set.name).expect("elements").unwrap_or_default();
            assert!(seen.foreign.is_empty(), "foreign elements in {}", set.name);
            let elements = seen.elements.into_iter().map(|element| (element.key, element.value));
            contents.elements.insert(set.name, elements.collect());
        }
        contents.chains =
            eyes.chains().expect("chains").into_iter().map(|seen| (seen.name, seen.object)).collect();
        contents
    }

    fn difference(&self, now: &Self) -> Difference {
        let mut difference = Difference::default();
        let none = BTreeMap::new();
        for (set, elements) in &now.elements {
            difference.elements(set, self.elements.get(set).unwrap_or(&none), elements);
            if !self.elements.contains_key(set) {
                difference.say(&format!("set {set} new"), 1, 0);
            }
        }
        for (name, chain) in &now.chains {
            let objects = 1 + chain.as_ref().map_or(0, |chain| chain.rules.len());
            match self.chains.get(name) {
                None => difference.say(&format!("chain {name} new"), objects, 0),
                Some(old) if old != chain => difference.say(&format!("chain {name} changed"), objects, 0),
                Some(_) => {}
            }
        }
        for gone in self.chains.keys().filter(|name| !now.chains.contains_key(*name)) {
            difference.say(&format!("chain {gone} gone"), 0, 1);
        }
        for gone in self.elements.keys().filter(|name| !now.elements.contains_key(*name)) {
            difference.say(&format!("set {gone} gone"), 0, 1);
        }
        difference
    }
}

impl Difference {
    fn elements(
        &mut self,
        set: &Name,
        was: &BTreeMap<KeyBytes, Option<Value>>,
        now: &BTreeMap<KeyBytes, Option<Value>>,
    ) {
        let added = now.keys().filter(|key| !was.contains_key(*key)).count();
        let gone = was.keys().filter(|key| !now.contains_key(*key)).count();
        let replaced =
            now.iter().filter(|(key, value)| was.get(*key).is_some_and(|old| old != *value)).count();
        if added + gone + replaced == 0 {
            return;
        }
        let mut text = set.to_string();
        for (sign, count) in [('+', added), ('-', gone), ('~', replaced)] {
            if count > 0 {
                let _ = write!(text, " {sign}{count}");
            }
        }
        self.say(&text, added + replaced, gone + replaced);
    }

    fn say(&mut self, text: &str, written: usize, removed: usize) {
        if !self.text.is_empty() {
            self.text.push_str(", ");
        }
        self.text.push_str(text);
        self.written += written;
        self.removed += removed;
    }
}
