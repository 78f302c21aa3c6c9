//! Ranges as texts, and ports taken from them.

use std::collections::BTreeSet;

use super::*;

fn allocator(first: u16, last: u16) -> PortAllocator {
    PortAllocator::new(PortRange::Between { first, last })
}

#[test]
fn a_range_is_a_port_two_ends_or_an_offset() {
    let read = |text: &str| text.parse::<PortRange>();
    assert_eq!(read("80"), Ok(PortRange::Between { first: 80, last: 80 }));
    assert_eq!(read("100-200"), Ok(PortRange::Between { first: 100, last: 200 }));
    assert_eq!(read("100+50"), Ok(PortRange::Between { first: 100, last: 150 }));
    assert_eq!(read("1-65535"), Ok(PortRange::Between { first: 1, last: 65535 }));
    for wrong in ["65536", "1-65536", "65535+1", "5-4", "a", "-1", "1-", "0-5", "1-2-3"] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

/// Row: userspace R42
#[test]
fn nothing_and_zero_mean_any_port() {
    for any in ["", "0", "0-0", " "] {
        assert_eq!(any.parse::<PortRange>(), Ok(PortRange::Any), "{any:?}");
    }
    let mut ports = PortAllocator::new(PortRange::Any);
    assert_eq!(ports.allocate(), Ok(0));
    assert_eq!(ports.allocate(), Ok(0));
    ports.release(0);
    assert_eq!(ports.allocate(), Ok(0));
}

/// Row: userspace R40
#[test]
fn the_only_port_is_handed_out_once_until_it_is_released() {
    let mut ports = allocator(1, 1);
    assert_eq!(ports.allocate(), Ok(1));
    assert_eq!(ports.allocate(), Err(NoPortsLeft));
    assert_eq!(NoPortsLeft.to_string(), "no remaining ports");
    ports.release(1);
    assert_eq!(ports.allocate(), Ok(1));
}

/// Row: userspace R41
#[test]
fn a_range_gives_each_port_once_and_in_another_order_the_next_time() {
    let mut ports = allocator(1, 100);
    let all = |ports: &mut PortAllocator| (0..100).map(|_| ports.allocate().unwrap()).collect::<Vec<u16>>();
    let first = all(&mut ports);
    assert_eq!(first.iter().copied().collect::<BTreeSet<u16>>(), (1..=100).collect());
    assert_eq!(ports.allocate(), Err(NoPortsLeft));
    for port in 1..=100 {
        ports.release(port);
    }
    let second = all(&mut ports);
    assert_eq!(second.iter().copied().collect::<BTreeSet<u16>>(), (1..=100).collect());
    assert_ne!(first, second);
}

#[test]
fn a_claimed_port_is_not_handed_out_and_foreign_ports_are_ignored() {
    let mut ports = allocator(10, 11);
    assert!(ports.claim(10));
    assert!(!ports.claim(10));
    assert!(!ports.claim(12));
    ports.release(12);
    ports.release(9);
    assert_eq!(ports.allocate(), Ok(11));
    assert_eq!(ports.allocate(), Err(NoPortsLeft));
}
