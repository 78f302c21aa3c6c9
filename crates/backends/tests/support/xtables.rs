//! A world whose iptables rules are kept step by step, in the namespace of this thread, and the text that did each step.

use ferrule_backends::iptables::metrics::RULES_TOTAL;
use ferrule_backends::iptables::{Host, Reconciler};
use ferrule_backends::{SyncReport, Trigger};
use ferrule_kernel::iptables::{IptablesError, RestoreText, RuleText, Saved, StampedChain};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::XTables;
use ferrule_kernel::subprocess::Cancel;
use ferrule_model::IpFamily;
use ferrule_plan::{FamilyPlan, PlanDelta};
use ferrule_testkit::World;

use super::iptables::Writer;

/// Tables that remember what was asked of them.
pub struct Recording<K> {
    pub tables: K,
    pub texts: Vec<String>,
    pub saves: usize,
}

/// Tables that hold nothing, and take everything.
pub struct Nowhere;

/// A world and the rules that are kept for it.
pub struct Lab<K> {
    pub world: World,
    pub reconciler: Reconciler<Recording<K>>,
}

/// A world of a node and these facts, in iptables mode.
pub fn world(facts: &str) -> World {
    let mut world = World::default();
    let settings =
        "mode iptables\nloopbackNodePorts inKernel\ndetectLocal ClusterCIDR 10.244.0.0/16,fd44::/32";
    world.run_proxy(settings).expect("settings");
    world.say("node a addresses 192.0.2.1,fd00::1").and_then(|()| world.say(facts)).expect("facts");
    world.settle();
    world
}

impl Lab<Box<dyn XTables + Send>> {
    /// A world of these facts, programmed.
    pub fn new(facts: &str, writer: Writer) -> Self {
        Self::with(world(facts), writer.tables(), Host::default())
    }
}

impl<K: XTables> Lab<K> {
    /// A world, programmed into these tables. Some fail on purpose, and may do so now.
    pub fn with(world: World, tables: K, host: Host) -> Self {
        let kernel = Recording { tables, texts: Vec::new(), saves: 0 };
        let mut lab = Self { world, reconciler: Reconciler::new(kernel, host) };
        let _ = lab.verify();
        lab
    }

    pub fn plan(&self) -> &FamilyPlan {
        self.world.family(IpFamily::V4).expect("IPv4 is served")
    }

    /// Says something new; what was done about it.
    pub fn then(&mut self, facts: &str) -> SyncReport {
        self.try_then(facts).expect("a change")
    }

    /// Says something new without writing it.
    pub fn say(&mut self, facts: &str) -> PlanDelta {
        let step = self.world.then(facts).expect("facts");
        step.deltas.get(IpFamily::V4).cloned().expect("IPv4 is served")
    }

    /// The same, where it may fail.
    pub fn try_then(&mut self, facts: &str) -> Result<SyncReport, IptablesError> {
        let delta = self.say(facts);
        let plan = self.world.family(IpFamily::V4).expect("IPv4 is served");
        self.reconciler.sync(plan, Trigger::Changed(&delta))
    }

    /// Makes sure that all is as it should be.
    pub fn verify(&mut self) -> Result<SyncReport, IptablesError> {
        let plan = self.world.family(IpFamily::V4).expect("IPv4 is served");
        self.reconciler.sync(plan, Trigger::verify())
    }

    /// Repairs, as after a foreign change.
    pub fn repair(&mut self) -> Result<SyncReport, IptablesError> {
        let plan = self.world.family(IpFamily::V4).expect("IPv4 is served");
        self.reconciler.sync(plan, Trigger::repair())
    }

    /// The text of the last restore.
    pub fn text(&mut self) -> String {
        self.reconciler.kernel().texts.last().cloned().unwrap_or_default()
    }

    /// How many restores there were.
    pub fn restores(&mut self) -> usize {
        self.reconciler.kernel().texts.len()
    }

    /// The rules there are.
    pub fn saved(&mut self) -> Saved {
        self.reconciler.kernel().tables.save().expect("iptables-save")
    }
}

/// How many rules there are in all, in filter and nat.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count of rules")]
pub fn totals(report: &SyncReport) -> (usize, usize) {
    let total = |table| {
        let mut samples = report.samples.iter();
        let found = samples.find(|sample| *sample.metric == RULES_TOTAL && sample.labels[0] == table);
        found.expect("a count").value as usize
    };
    (total("filter"), total("nat"))
}

/// The chains a text makes or empties, sorted.
pub fn chains(text: &str) -> Vec<&str> {
    let mut chains: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix(':')?.split(' ').next()).collect();
    chains.sort_unstable();
    chains
}

/// The chains a text removes, sorted.
pub fn removed(text: &str) -> Vec<&str> {
    let mut chains: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("-X ")).collect();
    chains.sort_unstable();
    chains
}

impl<K: XTables> XTables for Recording<K> {
    fn family(&self) -> Family {
        self.tables.family()
    }

    fn save(&mut self) -> Result<Saved, IptablesError> {
        self.saves += 1;
        self.tables.save()
    }

    fn restore(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        self.texts.push(text.to_string());
        self.tables.restore(text)
    }

    fn save_tables(&mut self, tables: &[&'static str], cancel: &Cancel) -> Result<Saved, IptablesError> {
        self.saves += 1;
        self.tables.save_tables(tables, cancel)
    }

    fn check_lock(&mut self) -> Result<(), IptablesError> {
        self.tables.check_lock()
    }

    fn generation(&mut self) -> Result<Option<u32>, IptablesError> {
        self.tables.generation()
    }

    fn portid(&self) -> Option<u32> {
        self.tables.portid()
    }

    fn restore_stamped(
        &mut self,
        text: &RestoreText,
        chain: StampedChain,
        stamp: &dyn Fn(u32) -> Vec<u8>,
    ) -> Result<Option<u32>, IptablesError> {
        self.texts.push(text.to_string());
        self.tables.restore_stamped(text, chain, stamp)
    }

    fn stamp(&mut self, chain: StampedChain) -> Result<Option<Vec<u8>>, IptablesError> {
        self.tables.stamp(chain)
    }

    fn test(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        self.tables.test(text)
    }

    fn chain_rules(&mut self, table: &str, chain: &str) -> Result<Option<Vec<RuleText>>, IptablesError> {
        self.tables.chain_rules(table, chain)
    }
}

impl XTables for Nowhere {
    fn family(&self) -> Family {
        Family::Ip
    }

    fn save(&mut self) -> Result<Saved, IptablesError> {
        Ok(Saved::default())
    }

    fn restore(&mut self, _: &RestoreText) -> Result<(), IptablesError> {
        Ok(())
    }

    fn save_tables(&mut self, _: &[&'static str], _: &Cancel) -> Result<Saved, IptablesError> {
        Ok(Saved::default())
    }

    fn test(&mut self, _: &RestoreText) -> Result<(), IptablesError> {
        Ok(())
    }

    fn chain_rules(&mut self, _: &str, _: &str) -> Result<Option<Vec<RuleText>>, IptablesError> {
        Ok(None)
    }
}
