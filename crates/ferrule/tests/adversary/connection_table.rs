//! The kernel's connection table is full: no new connection gets through until there is room, whatever the rules say.

use std::fs;
use std::io;
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use ferrule_kernel::netlink::{Incoming, MessageHeader, Protocol, Socket, Writer, flags};

use crate::root::wait;
use crate::stand::{ASKING_POD, PODS, Talker, VIP, ip, until};
use crate::table::{Seen, Table, not_tried};
use crate::victim::Victim;

/// A table with more entries takes too much memory and time to fill.
const MAX_FILLABLE: u32 = 1 << 20;
/// A UDP flow that has lasted for two seconds is assured.
const ASSURED_AFTER: Duration = Duration::from_secs(3);
/// A client's kernel asks for a connection again after a second, and then several times more.
const RETRANSMITTED_AFTER: Duration = Duration::from_millis(1500);
const CLIENT_TIMEOUT: Duration = Duration::from_mins(1);
const FLOWS_PER_SEND: u32 = 2000;

const NEW: u16 = 1 << 8;
const DELETE: u16 = 1 << 8 | 2;
const IPV4: [u8; 4] = [2, 0, 0, 0];
const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const STATUS: u16 = 3;
const TIMEOUT: u16 = 7;
/// Confirmed, seen in both directions, and not to be dropped for others.
const ASSURED: u32 = 1 << 3 | 1 << 2 | 1 << 1;
const UDP: u8 = 17;

pub fn attack(table: &mut Table) {
    if table.is_full() {
        table.attack(
            "the connection table is full",
            "rules follow, stale flows go; clients that wait are served once there is room",
            full_table,
        );
    }
}

fn full_table() -> Seen {
    let victim = Victim::new(&[]);
    let max = read(&victim, "nf_conntrack_max");
    if max > MAX_FILLABLE {
        return not_tried(&format!("nf_conntrack_max of at most {MAX_FILLABLE} (it is {max})"), false);
    }
    let talker = Talker::new(&victim.stand, ASKING_POD, VIP, 53);
    // The kernel drops flows of less than two seconds when it needs room.
    let since = Instant::now();
    while since.elapsed() < ASSURED_AFTER {
        talker.ask_until(&PODS);
        wait(Duration::from_millis(100));
    }
    fill(&victim, max);
    let count = read(&victim, "nf_conntrack_count");
    if count < max {
        return Err(format!("only {count} of {max} entries could be made"));
    }
    if victim.stand.flows_to(VIP, 53) != 1 {
        return Err("the flow that is to become stale is not there any more".into());
    }
    let pod_namespace = victim.stand.net.namespace_of(ip(ASKING_POD)).expect("the asking pod");
    let (waited, pod) = thread::scope(|scope| {
        let client = scope.spawn(|| pod_namespace.run(connect).expect("the pod"));
        wait(RETRANSMITTED_AFTER);
        if client.is_finished() {
            return Err(format!("a client did not wait: {:?}", client.join()));
        }
        // New connections are the kernel's to drop now, those to health checks among them.
        let pod = victim.change_pod();
        until(|| serves(&victim, pod).then_some(()));
        // The flow to the pod that left is one of hundreds of thousands.
        until(|| (victim.stand.flows_to(VIP, 53) == 0).then_some(()));
        empty(&victim);
        let waited =
            client.join().expect("a client").map_err(|error| format!("a client that waits: {error}"))?;
        Ok((waited, pod))
    })?;
    talker.ask_until(&[pod]);
    let waited = waited.as_millis();
    victim.is_well().map(|seen| {
        format!("with {max} entries rules followed and a stale flow went, a client was served after {waited} ms; {seen}")
    })
}

/// Connects to the Service, and says how long that took.
fn connect() -> io::Result<Duration> {
    let began = Instant::now();
    TcpStream::connect_timeout(&(ip(VIP), 80).into(), CLIENT_TIMEOUT)?;
    Ok(began.elapsed())
}

/// Whether the rules lead to a pod, and to no other.
fn serves(victim: &Victim, pod: &str) -> bool {
    let rules = victim.stand.nft(&["list", "table", "ip", "kube-proxy"]);
    PODS.iter().all(|other| rules.contains(other) == (*other == pod))
}

fn read(victim: &Victim, setting: &str) -> u32 {
    let path = format!("/proc/sys/net/netfilter/{setting}");
    let text = victim.stand.net.node().run(|| fs::read_to_string(path)).expect("the node");
    text.expect("conntrack's settings").trim().parse().expect("a number")
}

/// Adds entries until the kernel refuses any more.
fn fill(victim: &Victim, max: u32) {
    let numbers: Vec<u32> = (0..max).collect();
    let filled = victim.stand.net.node().run(|| {
        let mut socket = Socket::open(Protocol::Netfilter, &[]).map_err(io::Error::other)?;
        for numbers in numbers.chunks(FLOWS_PER_SEND as usize) {
            let mut writer = Writer::new();
            for number in numbers {
                write_flow(&mut writer, *number);
            }
            socket.send("filling the table", writer.as_bytes()).map_err(io::Error::other)?;
            // What no longer fits is refused, one answer each.
            while socket.receive_now(|_| {}).map_err(io::Error::other)? != Incoming::Nothing {}
        }
        io::Result::Ok(())
    });
    filled.expect("the node").expect("the table fills");
}

fn write_flow(writer: &mut Writer, number: u32) {
    let header = MessageHeader { kind: NEW, flags: flags::REQUEST | flags::CREATE, sequence: number };
    // One address for each 32,768 flows; nobody has them.
    let [high, low] = u16::try_from(number >> 15).unwrap_or(u16::MAX).to_be_bytes();
    let port = 0x8000 | u16::try_from(number & 0x7fff).unwrap_or(0);
    let (from, to) = (([198, 18, high, low], port), ([198, 51, 100, 1], 9));
    writer.message(header, |writer| {
        writer.raw(&IPV4);
        for (kind, (source, destination)) in [(ORIGINAL, (from, to)), (REPLY, (to, from))] {
            writer.nest(kind, |writer| {
                writer.nest(1, |writer| {
                    writer.bytes(1, &source.0);
                    writer.bytes(2, &destination.0);
                });
                writer.nest(2, |writer| {
                    writer.byte(1, UDP);
                    writer.bytes(2, &source.1.to_be_bytes());
                    writer.bytes(3, &destination.1.to_be_bytes());
                });
            });
        }
        writer.number(STATUS, ASSURED);
        writer.number(TIMEOUT, 600);
    });
}

/// Forgets all connections of the node.
fn empty(victim: &Victim) {
    let emptied = victim.stand.net.node().run(|| {
        let mut socket = Socket::open(Protocol::Netfilter, &[])?;
        let mut writer = Writer::new();
        let header = MessageHeader { kind: DELETE, flags: flags::REQUEST, sequence: 1 };
        writer.message(header, |writer| writer.raw(&IPV4));
        socket.send("emptying the table", writer.as_bytes())
    });
    emptied.expect("the node").expect("the table is emptied");
}
