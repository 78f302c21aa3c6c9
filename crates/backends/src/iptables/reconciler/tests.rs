//! When a repair reads, and when it need not.

use ferrule_kernel::iptables::RuleText;
use ferrule_kernel::nft::Family;
use ferrule_kernel::subprocess::Cancel;
use ferrule_model::{Cluster, NodeName};
use ferrule_plan::{NodeView, Quirks, plan};

use super::*;

/// Tables that take everything, hold nothing, and count how often they are read.
#[derive(Default)]
struct Tables {
    saves: usize,
}

impl XTables for Tables {
    fn family(&self) -> Family {
        Family::Ip
    }

    fn save(&mut self) -> Result<Saved, IptablesError> {
        self.saves += 1;
        Ok(Saved::default())
    }

    fn restore(&mut self, _: &RestoreText) -> Result<(), IptablesError> {
        Ok(())
    }

    fn save_tables(&mut self, _: &[&'static str], _: &Cancel) -> Result<Saved, IptablesError> {
        self.save()
    }

    fn test(&mut self, _: &RestoreText) -> Result<(), IptablesError> {
        Ok(())
    }

    fn chain_rules(&mut self, _: &str, _: &str) -> Result<Option<Vec<RuleText>>, IptablesError> {
        Ok(None)
    }
}

#[test]
fn a_repair_reads_nothing_once_all_that_was_announced_is_seen_to() {
    let view = NodeView {
        quirks: Quirks::IPTABLES,
        families: vec![IpFamily::V4],
        ..NodeView::new(NodeName::new("a"))
    };
    let (plan, _) = plan(&Cluster::default(), &view);
    let plan = plan.families.get(IpFamily::V4).expect("IPv4 is served");
    let mut reconciler = Reconciler::new(Tables::default(), Host::default());
    let suspected = reconciler.suspected();
    let mut reads = |trigger| {
        let before = reconciler.kernel().saves;
        reconciler.sync(plan, trigger).expect("a sync");
        reconciler.kernel().saves - before
    };
    assert_eq!(reads(Trigger::verify()), 1);
    assert_eq!(reads(Trigger::repair()), 1, "nobody watches");
    suspected.begin();
    assert_eq!(reads(Trigger::repair()), 0, "an earlier repair has seen to it");
    suspected.add_everything();
    assert_eq!((reads(Trigger::repair()), reads(Trigger::repair())), (1, 0));
    suspected.add_everything();
    assert_eq!((reads(Trigger::verify()), reads(Trigger::repair())), (1, 0), "a verification settles it");
}
