//! When counters are read, and when not.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;

use ferrule_model::PerFamily;
use ferrule_plan::NodePlan;
use ferrule_testkit::World;

use super::*;
use crate::counters::{CountedServices, SelectionChange};

/// Notes how often it is read.
#[derive(Default)]
struct Noting(Arc<AtomicUsize>);

impl ConnectionCounters for Noting {
    fn follow(&self, _: &SelectionChange) -> Vec<Note> {
        Vec::new()
    }

    fn read(&self, _: &Selected) -> Result<Vec<Count>, BackendError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Vec::new())
    }
}

#[test]
fn nothing_is_read_before_the_first_plan() {
    let noting = Noting::default();
    let readings = Arc::clone(&noting.0);
    let shared = SharedReading::new(Box::new(noting), Selection::new(CountedServices::All, 10), 10);
    assert_eq!(*shared.get().expect("an answer"), CounterReading::default());
    let world = World::of("service a clusterIP 10.0.0.1 port p 80").expect("facts");
    let (deltas, touched) = (PerFamily::default(), BTreeSet::new());
    let follow = |plan: &NodePlan| {
        shared.follow(&PlanChange { plan, deltas: &deltas, touched: &touched, asks: &|_| true });
    };
    follow(&NodePlan::default());
    assert_eq!(*shared.get().expect("an answer"), CounterReading::default());
    assert_eq!(readings.load(Ordering::Relaxed), 0);
    follow(&world.plan);
    assert_eq!(shared.get().expect("an answer").services.len(), 1);
    assert_eq!(readings.load(Ordering::Relaxed), 1);
}
