//! The contract of `Dataplane::sync`: after `Ok` the kernel holds the plan, whatever the trigger and whatever came before.

use std::thread;

use ferrule_backends::{BackendError, Dataplane, SyncOutcome, SyncReport, Trigger};
use ferrule_model::IpFamily;
use ferrule_plan::PlanDelta;
use ferrule_testkit::World;
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, remove_capability_from_bounding_set, set_capabilities,
};

use crate::mode::{CHANGE, FACTS, Mode, say, sync};

/// One sync under test.
#[derive(Clone, Copy, Debug)]
struct Case {
    family: IpFamily,
    knowledge: Knowledge,
    kind: TriggerKind,
    /// What changes right before.
    facts: &'static str,
}

/// What the dataplane knows before the sync under test.
#[derive(Clone, Copy, Debug)]
enum Knowledge {
    /// It never synced, and the kernel is empty.
    Fresh,
    /// It never synced; an earlier run left rules.
    Restarted,
    InSync,
    /// Its last sync failed.
    AfterFailure,
}

#[derive(Clone, Copy, Debug)]
enum TriggerKind {
    Changed,
    Verify,
    Repair,
}

impl Knowledge {
    const ALL: [Self; 4] = [Self::Fresh, Self::Restarted, Self::InSync, Self::AfterFailure];
}

impl TriggerKind {
    const ALL: [Self; 3] = [Self::Changed, Self::Verify, Self::Repair];

    fn trigger(self, changed: &PlanDelta) -> Trigger<'_> {
        match self {
            Self::Changed => Trigger::Changed(changed),
            Self::Verify => Trigger::Verify { changed },
            Self::Repair => Trigger::Repair { changed },
        }
    }
}

/// What the sync that fails was to write.
const FAILED_CHANGE: &str = "endpoint two 10.244.1.22 node a\nendpoint two fd44::22 node a";

/// Every trigger, after everything that may have come before, with and without a change.
pub fn check(mode: &'static Mode) {
    for knowledge in Knowledge::ALL {
        for kind in TriggerKind::ALL {
            for facts in ["", CHANGE] {
                for family in IpFamily::BOTH {
                    let case = Case { family, knowledge, kind, facts };
                    mode.in_namespace(|| check_case(mode, case));
                }
            }
        }
    }
}

fn check_case(mode: &Mode, case: Case) {
    let Case { family, knowledge, kind, facts } = case;
    let mut world = mode.world(FACTS);
    let mut dataplane = prepared(mode, &mut world, family, knowledge);
    let delta = say(&mut world, facts, family);
    let plan = world.family(family).expect("the family is served");
    sync(&mut *dataplane, plan, kind.trigger(&delta));
    assert_eq!(dataplane.diff(plan).expect("a diff").to_string(), "", "{case:?}");
    check_another_start(mode, &world, case);
}

/// A dataplane with this knowledge.
fn prepared(mode: &Mode, world: &mut World, family: IpFamily, knowledge: Knowledge) -> Box<dyn Dataplane> {
    let mut dataplane = mode.start_family(world, family);
    let plan = world.family(family).expect("the family is served").clone();
    match knowledge {
        Knowledge::Fresh => return dataplane,
        Knowledge::Restarted => {
            sync(&mut *dataplane, &plan, Trigger::verify());
            return mode.start_family(world, family);
        }
        Knowledge::InSync | Knowledge::AfterFailure => sync(&mut *dataplane, &plan, Trigger::verify()),
    };
    if matches!(knowledge, Knowledge::AfterFailure) {
        let delta = say(world, FAILED_CHANGE, family);
        let plan = world.family(family).expect("the family is served");
        without_rights(|| dataplane.sync(plan, Trigger::Changed(&delta))).expect_err("a sync without rights");
    }
    dataplane
}

/// One that knows nothing finds what it wants.
fn check_another_start(mode: &Mode, world: &World, case: Case) {
    let plan = world.family(case.family).expect("the family is served");
    let mut another = mode.start_family(world, case.family);
    assert_eq!(another.diff(plan).expect("a diff").to_string(), "", "{case:?}");
    let found = sync(&mut *another, plan, Trigger::verify());
    assert_eq!((found.outcome, found.commits), (SyncOutcome::UpToDate, 0), "{case:?}: {found:?}");
}

/// Another program removes something: a verification and a repair put it back, whatever else changed.
pub fn check_damage(mode: &'static Mode) {
    for kind in [TriggerKind::Verify, TriggerKind::Repair] {
        for facts in ["", CHANGE] {
            let case = Case { family: IpFamily::V4, knowledge: Knowledge::InSync, kind, facts };
            mode.in_namespace(|| {
                let mut world = mode.world(FACTS);
                let mut dataplane = prepared(mode, &mut world, case.family, case.knowledge);
                let delta = say(&mut world, facts, case.family);
                mode.damage();
                let plan = world.family(case.family).expect("the family is served");
                let report = sync(&mut *dataplane, plan, kind.trigger(&delta));
                assert!(report.outcome.is_repair(), "{case:?}: {report:?}");
                check_another_start(mode, &world, case);
            });
        }
    }
}

/// Has a sync fail: on a thread that may not change the network, nor may the programs it starts.
fn without_rights(
    sync: impl FnOnce() -> Result<SyncReport, BackendError> + Send,
) -> Result<SyncReport, BackendError> {
    let unprivileged = || {
        remove_capability_from_bounding_set(CapabilitySet::NET_ADMIN).expect("a smaller bounding set");
        let without = |set: CapabilitySet| set.difference(CapabilitySet::NET_ADMIN);
        let had = capabilities(None).expect("the rights of this thread");
        let has = CapabilitySets {
            effective: without(had.effective),
            permitted: without(had.permitted),
            inheritable: without(had.inheritable),
        };
        set_capabilities(None, has).expect("fewer rights");
        sync()
    };
    let synced = thread::scope(|scope| scope.spawn(unprivileged).join());
    synced.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
