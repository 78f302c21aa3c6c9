//! `Dataplane::diff`: what a sync would write, and nothing is written to find out.

use ferrule_backends::Trigger;
use ferrule_model::IpFamily;

use crate::mode::{FACTS, Mode, sync};

pub fn in_sync(mode: &'static Mode) {
    for family in IpFamily::BOTH {
        mode.in_namespace(|| {
            let world = mode.world(FACTS);
            let plan = world.family(family).expect("the family is served");
            let mut dataplane = mode.start_family(&world, family);
            sync(&mut *dataplane, plan, Trigger::verify());
            let before = mode.listing();
            assert!(dataplane.diff(plan).expect("a diff").is_empty());
            let fresh = mode.start_family(&world, family).diff(plan);
            assert!(fresh.expect("a diff").is_empty());
            assert_eq!(mode.listing(), before);
        });
    }
}

pub fn after_damage(mode: &'static Mode) {
    mode.in_namespace(|| {
        let world = mode.world(FACTS);
        let plan = world.family(IpFamily::V4).expect("IPv4 is served");
        let mut dataplane = mode.start_family(&world, IpFamily::V4);
        sync(&mut *dataplane, plan, Trigger::verify());
        mode.damage();
        let before = mode.listing();
        for dataplane in [&mut dataplane, &mut mode.start_family(&world, IpFamily::V4)] {
            assert_eq!(dataplane.diff(plan).expect("a diff").lines, mode.damage.diff);
        }
        assert_eq!(mode.listing(), before);
    });
}

pub fn empty_kernel(mode: &'static Mode) {
    mode.in_namespace(|| {
        let world = mode.world(FACTS);
        let plan = world.family(IpFamily::V4).expect("IPv4 is served");
        let mut dataplane = mode.start_family(&world, IpFamily::V4);
        let before = mode.listing();
        let diff = dataplane.diff(plan).expect("a diff");
        assert_eq!(mode.listing(), before);
        for wanted in ["10.96.0.1", "10.96.0.2", "10.244.1.1", "10.244.1.2", "30080"] {
            assert!(diff.lines.iter().any(|line| line.contains(wanted)), "no {wanted} in:\n{diff}");
        }
        let report = sync(&mut *dataplane, plan, Trigger::verify());
        // Besides objects and rules there may be lines that begin or end a table.
        assert!(diff.lines.len() > report.written / 2, "{} lines, {report:?}", diff.lines.len());
    });
}
