//! What a start does with the rules that an earlier run left.

use ferrule_backends::{SyncOutcome, Trigger};
use ferrule_model::IpFamily;

use crate::mode::{CHANGE, FACTS, Mode, say, sync};

pub fn without_a_change(mode: &'static Mode) {
    for family in IpFamily::BOTH {
        mode.in_namespace(|| {
            let world = mode.world(FACTS);
            let plan = world.family(family).expect("the family is served");
            let first = sync(&mut *mode.start_family(&world, family), plan, Trigger::verify());
            assert_eq!(first.outcome, SyncOutcome::Created, "{first:?}");
            let left = mode.listing();
            let second = sync(&mut *mode.start_family(&world, family), plan, Trigger::verify());
            assert_eq!((second.outcome, second.commits), (SyncOutcome::UpToDate, 0), "{second:?}");
            assert_eq!((second.written, second.removed), (0, 0));
            assert_eq!(mode.listing(), left);
        });
    }
}

pub fn after_a_change(mode: &'static Mode) {
    for family in IpFamily::BOTH {
        mode.in_namespace(|| {
            let mut world = mode.world(FACTS);
            let before = world.family(family).expect("the family is served").clone();
            sync(&mut *mode.start_family(&world, family), &before, Trigger::verify());
            say(&mut world, CHANGE, family);
            let plan = world.family(family).expect("the family is served");
            let report = sync(&mut *mode.start_family(&world, family), plan, Trigger::verify());
            assert_eq!(report.outcome, SyncOutcome::Rewritten, "{report:?}");
            let again = sync(&mut *mode.start_family(&world, family), plan, Trigger::verify());
            assert_eq!((again.outcome, again.commits), (SyncOutcome::UpToDate, 0), "{again:?}");
        });
    }
}

/// What a start adopted it knows as well as what it wrote itself.
pub fn adoption(mode: &'static Mode) {
    for family in IpFamily::BOTH {
        mode.in_namespace(|| {
            let mut world = mode.world(FACTS);
            let before = world.family(family).expect("the family is served").clone();
            sync(&mut *mode.start_family(&world, family), &before, Trigger::verify());
            let mut adopted = mode.start_family(&world, family);
            let report = sync(&mut *adopted, &before, Trigger::verify());
            assert_eq!(report.outcome, SyncOutcome::UpToDate, "{report:?}");
            let delta = say(&mut world, CHANGE, family);
            let plan = world.family(family).expect("the family is served");
            let report = sync(&mut *adopted, plan, Trigger::Changed(&delta));
            assert_eq!(report.outcome, SyncOutcome::Incremental, "{report:?}");
            assert_eq!(adopted.diff(plan).expect("a diff").to_string(), "");
        });
    }
}

pub fn after_damage(mode: &'static Mode) {
    mode.in_namespace(|| {
        let world = mode.world(FACTS);
        let plan = world.family(IpFamily::V4).expect("IPv4 is served");
        sync(&mut *mode.start_family(&world, IpFamily::V4), plan, Trigger::verify());
        let left = mode.listing();
        mode.damage();
        assert_ne!(mode.listing(), left);
        let report = sync(&mut *mode.start_family(&world, IpFamily::V4), plan, Trigger::verify());
        assert!(report.outcome.is_repair(), "{report:?}");
        let again = sync(&mut *mode.start_family(&world, IpFamily::V4), plan, Trigger::verify());
        assert_eq!((again.outcome, again.commits), (SyncOutcome::UpToDate, 0), "{again:?}");
    });
}
