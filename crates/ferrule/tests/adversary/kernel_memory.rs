//! The kernel runs out of room: for notifications, for requests, for the memory of a control group.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Access, access};

use crate::borrowed::{Borrowed, Netlink};
use crate::limits::many_services;
use crate::root::wait;
use crate::stand::{ASKING_POD, PATIENCE, PODS, VIP, is_answered_by, until};
use crate::table::{Seen, Table, not_tried};
use crate::victim::Victim;

const COMMITS: usize = 100;
const OBJECTS_PER_COMMIT: usize = 100;
/// Each change of a foreign table may cost a look at ours, and looks have a pace.
const MAX_BUSY: Duration = Duration::from_secs(5);
const MAX_LINES: usize = 100;

pub fn attack(table: &mut Table) {
    table.group("exhausted resources");
    table.attack(
        "the smallest receive buffer for changes of rules, and 10,000 foreign objects",
        "what was missed is found and undone; no busy loop, no flood of lines",
        missed_rules,
    );
    table.attack(
        "the smallest receive buffer for changes of addresses, and 2,000 of them",
        "serves on; no busy loop, no flood of lines",
        missed_addresses,
    );
    table.attack(
        "the kernel has no room for a large change",
        "the rules stay, the error is told, the change follows once there is room",
        no_room_to_send,
    );
    table.attack(
        "the kernel has no room for answers to commits",
        "rules follow, if need be at a second try",
        no_room_for_answers,
    );
    if table.is_full() {
        table.attack(
            "a memory cgroup that it does not fit in",
            "the kernel ends it or refuses a change; the rules stay, and then it serves",
            small_cgroup,
        );
    }
}

/// How much it did and said since some moment.
struct Effort {
    processor: Duration,
    lines: usize,
}

impl Effort {
    fn now(victim: &Victim) -> Self {
        Self { processor: victim.program.processor_time(), lines: victim.program.said() }
    }

    fn since(&self, victim: &Victim) -> Seen {
        let busy = victim.program.processor_time().saturating_sub(self.processor);
        let lines = victim.program.said() - self.lines;
        if busy > MAX_BUSY || lines > MAX_LINES {
            return Err(format!("busy for {busy:?}, {lines} lines"));
        }
        Ok(format!("busy for {} ms, {lines} lines", busy.as_millis()))
    }
}

fn missed_rules() -> Seen {
    let victim = Victim::new(&[]);
    let before = victim.stand.nft(&["--terse", "list", "table", "ip", "kube-proxy"]);
    let sockets = Borrowed::from(&victim, Netlink::RuleWatch);
    sockets.shrink_receive_buffers();
    let effort = Effort::now(&victim);
    for commit in 0..COMMITS {
        let mut script = String::from("add table ip foreign\n");
        for object in 0..OBJECTS_PER_COMMIT {
            let _ = writeln!(script, "add set ip foreign s{commit}-{object} {{ type ipv4_addr; }}");
        }
        if commit == COMMITS / 2 {
            // A program that gets no processor time reads nothing: this is certain to be missed.
            script += "flush table ip kube-proxy\nadd set ip kube-proxy foreign { type ipv4_addr; }\n";
            victim.while_stopped(|| feed(&victim, "nft", &["-f", "-"], &script))?;
            sockets.were_overrun()?;
        } else {
            feed(&victim, "nft", &["-f", "-"], &script)?;
        }
    }
    let seen = victim.is_well()?;
    until(|| (victim.stand.nft(&["--terse", "list", "table", "ip", "kube-proxy"]) == before).then_some(()));
    Ok(format!("{seen}; {}", effort.since(&victim)?))
}

fn missed_addresses() -> Seen {
    let victim = Victim::new(&[]);
    let sockets = Borrowed::from(&victim, Netlink::AddressWatch);
    sockets.shrink_receive_buffers();
    let effort = Effort::now(&victim);
    let script = |verb: &str| {
        (0..1000).fold(String::new(), |mut script, number| {
            let _ = writeln!(script, "address {verb} 198.18.{}.{}/32 dev lo", number / 250, number % 250);
            script
        })
    };
    // A program that gets no processor time reads nothing: some are certain to be missed.
    victim.while_stopped(|| feed(&victim, "ip", &["-batch", "-"], &script("add")))?;
    sockets.were_overrun()?;
    feed(&victim, "ip", &["-batch", "-"], &script("del"))?;
    let seen = victim.is_well()?;
    Ok(format!("{seen}; {}", effort.since(&victim)?))
}

fn feed(victim: &Victim, program: &str, arguments: &[&str], script: &str) -> Result<(), String> {
    let fed = victim.stand.net.node().feed(program, arguments, script);
    fed.map(drop).map_err(|error| error.with_sources())
}

fn no_room_to_send() -> Seen {
    let victim = Victim::new(&[]);
    let sockets = Borrowed::from(&victim, Netlink::RuleWriter);
    sockets.shrink_send_buffers();
    let effort = Effort::now(&victim);
    victim.stand.write("many.yaml", &many_services(500));
    let failures = || {
        let log = victim.program.log();
        log.iter().skip(effort.lines).filter(|line| line.contains("Sync failed")).count()
    };
    until(|| (failures() >= 3).then_some(()));
    let told = victim.program.wait_for("Sync failed", effort.lines, PATIENCE).ok_or("nothing was told")?;
    if !is_answered_by(&victim.stand.ask(ASKING_POD, VIP, 80), &PODS) {
        return Err(format!("the old rules are gone; {told}"));
    }
    sockets.grow_buffers();
    // It tries again by itself, after a pause that grows.
    until(|| victim.stand.nft(&["list", "table", "ip", "kube-proxy"]).contains("10.100.1.243").then_some(()));
    let seen = victim.is_well()?;
    Ok(format!("{seen}; {}", effort.since(&victim)?))
}

fn no_room_for_answers() -> Seen {
    let victim = Victim::new(&[]);
    let sockets = Borrowed::from(&victim, Netlink::RuleWriter);
    sockets.shrink_receive_buffers();
    let effort = Effort::now(&victim);
    sockets.fill_receive_buffers();
    sockets.were_overrun()?;
    victim.stand.write("many.yaml", &many_services(500));
    victim.change_pod();
    victim.stand.nft(&["flush", "table", "ip", "kube-proxy"]);
    // If it has to try again, it does so by itself.
    let is_written = || victim.stand.nft(&["list", "table", "ip", "kube-proxy"]).contains("10.100.1.243");
    let give_up = Instant::now() + PATIENCE;
    while !is_written() {
        if Instant::now() > give_up {
            return Err(format!("not written; {:?}", victim.program.log().last()));
        }
    }
    sockets.grow_buffers();
    let seen = victim.is_well()?;
    Ok(format!("{seen}; {}", effort.since(&victim)?))
}

/// A control group of the test's own; removed with it.
struct MemoryGroup(PathBuf);

/// Version 1 and version 2.
const PLACES: [&str; 2] = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];

impl MemoryGroup {
    /// `None` where no memory controller can be used.
    fn new() -> Option<Self> {
        let name = format!("ferrule-adversary-{}", std::process::id());
        PLACES.map(Path::new).into_iter().find_map(|place| {
            let path = place.join(&name);
            fs::create_dir(&path).ok()?;
            let group = Self(path);
            group.limit_file().exists().then_some(group)
        })
    }

    /// Whether there is a hierarchy with a memory controller that this process may write to.
    fn is_possible() -> bool {
        let has_controller = |place: &Path| {
            let controllers = fs::read_to_string(place.join("cgroup.subtree_control")).unwrap_or_default();
            place.join("memory.limit_in_bytes").exists() || controllers.contains("memory")
        };
        let is_usable = |place: &Path| has_controller(place) && access(place, Access::WRITE_OK).is_ok();
        PLACES.map(Path::new).into_iter().any(is_usable)
    }

    fn limit_file(&self) -> PathBuf {
        let v1 = self.0.join("memory.limit_in_bytes");
        if v1.exists() { v1 } else { self.0.join("memory.max") }
    }

    fn add(&self, process: u32) -> Result<(), String> {
        fs::write(self.0.join("cgroup.procs"), process.to_string()).map_err(|error| error.to_string())
    }

    fn limit(&self, bytes: u64) -> Result<(), String> {
        fs::write(self.limit_file(), bytes.to_string()).map_err(|error| error.to_string())
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        // A process that ends leaves its group a moment later.
        let give_up = Instant::now() + PATIENCE;
        while fs::remove_dir(&self.0).is_err() && Instant::now() < give_up {
            wait(Duration::from_millis(10));
        }
    }
}

fn small_cgroup() -> Seen {
    let Some(group) = MemoryGroup::new() else {
        return not_tried("memory controller", MemoryGroup::is_possible());
    };
    let mut victim = Victim::new(&[]);
    group.add(victim.program.id())?;
    group.limit(6 << 20)?;
    victim.stand.write("many.yaml", &many_services(20_000));
    let ended = until(|| match victim.is_healthy() {
        Err(state) if state.starts_with("it ended") => Some(true),
        _ => victim.program.log().iter().any(|line| line.contains("Sync failed")).then_some(false),
    });
    if !is_answered_by(&victim.stand.ask(ASKING_POD, VIP, 80), &PODS) {
        return Err("the rules did not outlive it".into());
    }
    if !ended {
        group.limit(1 << 40)?;
        return victim.is_well().map(|seen| format!("it was refused memory; {seen}"));
    }
    victim.program.wait_until_ended();
    victim.resume();
    victim.is_well().map(|seen| format!("the kernel ended it, the rules stayed; the next start {seen}"))
}
