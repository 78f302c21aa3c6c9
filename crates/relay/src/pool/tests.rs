//! The choice of endpoints, with times that the test chooses.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;
use crate::random::Random;

fn endpoint(number: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], number))
}

fn endpoints(numbers: impl IntoIterator<Item = u16>) -> Vec<SocketAddr> {
    numbers.into_iter().map(endpoint).collect()
}

fn client(number: u8) -> IpAddr {
    IpAddr::from([192, 0, 2, number])
}

/// A pool, and a clock that the test moves.
struct World {
    pool: Pool,
    now: Instant,
}

impl World {
    fn new(numbers: impl IntoIterator<Item = u16>) -> Self {
        let pool = Pool::with_rotation(PoolLimits::default(), Rotation::shuffled_by(Random::seeded(7)));
        pool.set_endpoints(endpoints(numbers));
        Self { pool, now: Instant::now() }
    }

    fn sticky(numbers: impl IntoIterator<Item = u16>, seconds: u64) -> Self {
        let world = Self::new(numbers);
        world.pool.set_affinity(Some(Duration::from_secs(seconds)));
        world
    }

    fn pick(&self, number: u8) -> Result<SocketAddr, PickError> {
        self.ask(number, Attempt::First, &[])
    }

    fn ask(&self, number: u8, attempt: Attempt, tried: &[SocketAddr]) -> Result<SocketAddr, PickError> {
        self.pool.pick_at(self.now, Request { client: client(number), attempt, tried })
    }

    /// What clients get who all come once.
    fn round(&self, count: usize) -> Vec<SocketAddr> {
        (0..count).map(|number| self.pick(u8::try_from(number).unwrap()).unwrap()).collect()
    }

    fn fail(&self, endpoint: SocketAddr, times: usize) {
        for _ in 0..times {
            self.pool.report_failure_at(endpoint, self.now);
        }
    }

    fn pass(&mut self, seconds: u64) {
        self.now += Duration::from_secs(seconds);
    }
}

/// Row: userspace R24, R28
#[test]
fn an_empty_pool_has_no_endpoint() {
    let world = World::new([]);
    assert_eq!(world.pick(1), Err(PickError::NoEndpoints));
    assert_eq!(PickError::NoEndpoints.to_string(), "missing endpoints");
}

/// Row: userspace R25
#[test]
fn the_only_endpoint_is_always_chosen() {
    let world = World::new([1]);
    assert_eq!(world.round(4), endpoints([1, 1, 1, 1]));
}

/// Row: userspace R26, R27
#[test]
fn endpoints_take_turns_in_a_shuffled_order() {
    let world = World::new(1..=3);
    let order = world.round(6);
    assert_eq!(order[..3], order[3..]);
    assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), endpoints(1..=3).into_iter().collect());
    let orders: BTreeSet<Vec<SocketAddr>> = (0..50)
        .map(|seed| {
            let pool =
                Pool::with_rotation(PoolLimits::default(), Rotation::shuffled_by(Random::seeded(seed)));
            pool.set_endpoints(endpoints(1..=3));
            (0..3).map(|_| pool.pick(client(1), Attempt::First).unwrap()).collect()
        })
        .collect();
    assert_eq!(orders.len(), 6, "every order comes up");
}

/// Row: userspace R28
#[test]
fn other_endpoints_start_over() {
    let world = World::new(1..=3);
    world.pick(1).unwrap();
    world.pool.set_endpoints(endpoints([8, 9]));
    let order = world.round(4);
    assert_eq!(order[..2], order[2..]);
    assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), endpoints([8, 9]).into_iter().collect());
    world.pool.set_endpoints(Vec::new());
    assert_eq!(world.pick(1), Err(PickError::NoEndpoints));
}

/// Row: userspace R29
#[test]
fn the_same_endpoints_in_another_order_change_nothing() {
    let world = World::new(1..=3);
    let order = world.round(3);
    world.pick(1).unwrap();
    world.pool.set_endpoints(endpoints([3, 1, 2]));
    assert_eq!(world.round(3), [order[1], order[2], order[0]]);
}

/// Row: userspace R30
#[test]
fn pools_do_not_share_their_turns() {
    let (one, other) = (World::new(1..=3), World::new(1..=3));
    let order = other.round(3);
    one.round(1);
    one.pool.set_endpoints(Vec::new());
    assert_eq!(one.pick(1), Err(PickError::NoEndpoints));
    assert_eq!(other.round(3), order);
}

/// Row: userspace R31
#[test]
fn sticky_clients_keep_their_endpoints() {
    let world = World::sticky(1..=3, 60);
    let first = world.round(3);
    assert_eq!(first.iter().copied().collect::<BTreeSet<_>>().len(), 3);
    assert_eq!(world.round(3), first);
    assert_eq!(world.round(3), first);
    // Whether affinity or endpoints come first makes no difference.
    let late = World::sticky([], 60);
    late.pool.set_endpoints(endpoints(1..=3));
    assert_eq!(late.round(3), late.round(3));
}

/// Row: userspace R32
#[test]
fn only_clients_of_vanished_endpoints_move() {
    let world = World::sticky(1..=3, 60);
    let before = world.round(3);
    let kept: Vec<SocketAddr> = vec![before[0], before[2]];
    world.pool.set_endpoints(kept.clone());
    let after = world.round(3);
    assert_eq!((after[0], after[2]), (before[0], before[2]));
    assert!(kept.contains(&after[1]));
    let mut more = kept;
    more.push(endpoint(9));
    world.pool.set_endpoints(more);
    assert_eq!(world.round(3), after);
}

/// Row: userspace R33
#[test]
fn clients_of_replaced_endpoints_are_assigned_from_the_start() {
    let world = World::sticky(1..=3, 60);
    world.round(3);
    world.pool.set_endpoints(endpoints(4..=6));
    let order = world.round(3);
    assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), endpoints(4..=6).into_iter().collect());
    assert_eq!(world.round(3), order);
}

/// Row: userspace R34
#[test]
fn a_failed_dial_moves_a_sticky_client_on() {
    let world = World::sticky(1..=3, 60);
    let first = world.pick(1).unwrap();
    let second = world.ask(1, Attempt::Again, &[]).unwrap();
    let third = world.ask(1, Attempt::Again, &[]).unwrap();
    assert_eq!(BTreeSet::from([first, second, third]).len(), 3);
    assert_eq!(world.pick(1), Ok(third));
    assert_eq!(world.ask(1, Attempt::Again, &[]), Ok(first));
}

/// Row: userspace R35
/// Row: model L10
#[test]
fn an_idle_client_is_free_after_the_timeout() {
    let mut world = World::sticky(1..=3, 60);
    let first = world.pick(1).unwrap();
    world.pass(59);
    assert_eq!(world.pick(1), Ok(first), "and its time begins again");
    world.pass(59);
    assert_eq!(world.pick(1), Ok(first));
    world.pass(60);
    assert_ne!(world.pick(1), Ok(first));
    world.pass(60);
    world.pool.state().affinity.purge_expired(world.now);
    assert_eq!(world.pool.stats().sticky_clients, 0);
}

/// Row: userspace R36
#[test]
fn a_changed_timeout_applies_at_once() {
    let mut world = World::sticky(1..=3, 10_800);
    let first = world.pick(1).unwrap();
    world.pool.set_affinity(Some(Duration::from_mins(1)));
    world.pass(60);
    assert_ne!(world.pick(1), Ok(first));
    world.pool.set_affinity(None);
    assert_eq!(world.pool.stats().sticky_clients, 0);
    assert_ne!(world.pick(1), world.pick(1));
}

#[test]
fn mapped_addresses_are_the_same_client() {
    let world = World::sticky(1..=3, 60);
    let mapped = "::ffff:192.0.2.1".parse().unwrap();
    assert_eq!(world.pool.pick(mapped, Attempt::First), world.pick(1));
}

#[test]
fn three_failures_set_an_endpoint_aside_and_twice_as_long_the_next_time() {
    let mut world = World::new(1..=2);
    let bad = endpoint(1);
    world.fail(bad, 2);
    assert!(world.round(4).contains(&bad));
    world.fail(bad, 1);
    assert_eq!(world.round(4), endpoints([2, 2, 2, 2]));
    world.pass(4);
    assert_eq!(world.round(4), endpoints([2, 2, 2, 2]));
    world.pass(1);
    // One client tries it; others do not wait for the outcome.
    assert_eq!(world.round(6).iter().filter(|chosen| **chosen == bad).count(), 1);
    world.fail(bad, 1);
    world.pass(9);
    assert_eq!(world.round(4), endpoints([2, 2, 2, 2]));
    world.pass(1);
    assert!(world.round(4).contains(&bad));
    world.pool.report_success(bad);
    assert_eq!(world.round(4).iter().filter(|chosen| **chosen == bad).count(), 2);
    assert_eq!(world.pool.stats().set_aside, 0);
}

#[test]
fn a_success_in_between_starts_the_count_again() {
    let world = World::new(1..=2);
    for _ in 0..5 {
        world.fail(endpoint(1), 2);
        world.pool.report_success(endpoint(1));
    }
    assert!(world.round(4).contains(&endpoint(1)));
}

#[test]
fn if_all_are_set_aside_they_are_used_anyway() {
    let world = World::new(1..=3);
    for number in 1..=3 {
        world.fail(endpoint(number), 3);
    }
    assert_eq!(world.round(3).into_iter().collect::<BTreeSet<_>>().len(), 3);
}

#[test]
fn an_endpoint_that_was_tried_comes_last() {
    let world = World::new(1..=3);
    world.fail(endpoint(2), 3);
    let tried = endpoints([1]);
    assert_eq!(world.ask(1, Attempt::Again, &tried), Ok(endpoint(3)));
    let tried = endpoints([1, 3]);
    assert_eq!(world.ask(1, Attempt::Again, &tried), Ok(endpoint(2)), "set aside is better than tried");
    let tried = endpoints([1, 2, 3]);
    assert!(world.ask(1, Attempt::Again, &tried).is_ok());
}

#[test]
fn only_admitted_clients_get_an_endpoint() {
    let world = World::new([1]);
    world.pool.set_admitted(Admission::Ranges(vec![
        "192.0.2.1/32".parse().unwrap(),
        "2001:db8::/32".parse().unwrap(),
    ]));
    assert_eq!(world.pick(1), Ok(endpoint(1)));
    assert_eq!(world.pick(2), Err(PickError::NotAdmitted));
    assert_eq!(world.pool.pick("2001:db8::1".parse().unwrap(), Attempt::First), Ok(endpoint(1)));
    assert_eq!(world.pool.pick("::ffff:192.0.2.1".parse().unwrap(), Attempt::First), Ok(endpoint(1)));
    world.pool.set_admitted(Admission::Ranges(Vec::new()));
    assert_eq!(world.pick(1), Err(PickError::NotAdmitted));
}

#[test]
fn remembered_clients_are_limited_and_the_latest_stay() {
    let limits = PoolLimits { max_sticky_clients: 100, ..PoolLimits::default() };
    let pool = Pool::new(limits);
    pool.set_endpoints(endpoints(1..=3));
    pool.set_affinity(Some(Duration::from_mins(1)));
    let begin = Instant::now();
    for number in 0..10_000_u32 {
        let client = IpAddr::from(number.to_be_bytes());
        let now = begin + Duration::from_millis(number.into());
        pool.pick_at(now, Request { client, attempt: Attempt::First, tried: &[] }).unwrap();
        assert!(pool.stats().sticky_clients <= 100);
    }
    let latest = IpAddr::from(9_999_u32.to_be_bytes());
    let again = Request { client: latest, attempt: Attempt::First, tried: &[] };
    let now = begin + Duration::from_secs(10);
    assert_eq!(pool.pick_at(now, again), pool.pick_at(now, again));
}

/// One event in the life of a pool.
#[derive(Clone, Debug)]
enum Step {
    Set(Vec<u16>),
    Pick(u8),
    Again(u8),
    Fail(u16),
    Succeed(u16),
    Pass(u64),
    Sticky(Option<u64>),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        proptest::collection::vec(0..6_u16, 0..6).prop_map(Step::Set),
        (0..4_u8).prop_map(Step::Pick),
        (0..4_u8).prop_map(Step::Again),
        (0..6_u16).prop_map(Step::Fail),
        (0..6_u16).prop_map(Step::Succeed),
        (0..100_u64).prop_map(Step::Pass),
        proptest::option::of(1..90_u64).prop_map(Step::Sticky),
    ]
}

proptest! {
    /// Whatever happens, an endpoint of the current set is chosen if there is one, and a sticky client stays where it is until
    /// its endpoint vanishes, its time is over or it asks again.
    #[test]
    fn choices_are_current_and_sticky(steps in proptest::collection::vec(any_step(), 1..80)) {
        let mut world = World::new([]);
        let mut current: Vec<SocketAddr> = Vec::new();
        let mut timeout: Option<u64> = None;
        let mut pinned: BTreeMap<u8, (SocketAddr, Instant)> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Set(numbers) => {
                    current = endpoints(numbers);
                    pinned.retain(|_, (endpoint, _)| current.contains(endpoint));
                    world.pool.set_endpoints(current.clone());
                }
                Step::Pick(number) => {
                    let chosen = world.pick(number);
                    prop_assert_eq!(chosen.is_ok(), !current.is_empty());
                    let Ok(chosen) = chosen else { continue };
                    prop_assert!(current.contains(&chosen));
                    if let (Some(timeout), Some((before, at))) = (timeout, pinned.get(&number))
                        && (world.now - *at).as_secs() < timeout
                    {
                        prop_assert_eq!(chosen, *before);
                    }
                    pinned.insert(number, (chosen, world.now));
                }
                Step::Again(number) => {
                    if let Ok(chosen) = world.ask(number, Attempt::Again, &[]) {
                        prop_assert!(current.contains(&chosen));
                        pinned.insert(number, (chosen, world.now));
                    }
                }
                Step::Fail(number) => world.fail(endpoint(number), 1),
                Step::Succeed(number) => world.pool.report_success(endpoint(number)),
                Step::Pass(seconds) => world.pass(seconds),
                Step::Sticky(seconds) => {
                    timeout = seconds;
                    if seconds.is_none() {
                        pinned.clear();
                    }
                    world.pool.set_affinity(seconds.map(Duration::from_secs));
                }
            }
            if timeout.is_none() {
                pinned.clear();
            }
        }
    }

    /// Without failures and affinity, as many picks as endpoints take each of them once.
    #[test]
    fn turns_are_fair(count in 1..20_u16, rounds in 1..5_usize) {
        let world = World::new(0..count);
        let mut taken: BTreeMap<SocketAddr, usize> = BTreeMap::new();
        for _ in 0..usize::from(count) * rounds {
            *taken.entry(world.pick(1).unwrap()).or_default() += 1;
        }
        prop_assert_eq!(taken.len(), usize::from(count));
        prop_assert!(taken.values().all(|times| *times == rounds));
    }
}
