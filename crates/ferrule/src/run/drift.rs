//! Listens to the kernel: who touched our rules, and whether the host's addresses changed.
//!
//! A thread for each. What is to be done about it is the loop's matter.

use std::io;
use std::os::fd::AsFd;
use std::sync::mpsc::SyncSender as Sender;
use std::time::Duration;

use ferrule_kernel::interfaces::AddressWatch;
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::{self, Family, News, NftWatch, What};
use ferrule_model::IpFamily;
use rustix::event::{PollFd, PollFlags, poll};
use tracing::{error, info, warn};

use super::Event;
use crate::causes::with_causes;
use crate::threads;

/// How long after a failure it is listened again.
const PAUSE: Duration = Duration::from_secs(5);

/// Somebody else changed our table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Drift {
    /// The family of the table.
    pub family: IpFamily,
    /// What was changed; empty if the kernel could not tell all.
    pub what: String,
    /// By whom, where the kernel tells.
    pub by: Option<String>,
}

/// Why nobody listens.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The kernel does not let us.
    #[error("listening to changes of addresses")]
    Netlink(#[source] NetlinkError),
    /// There is no thread for it.
    #[error("starting the thread that listens to the kernel")]
    Thread(#[source] io::Error),
}

/// Listens to changes of the host's addresses from now on; ends with the loop.
pub fn listen_to_addresses(events: Sender<Event>) -> Result<(), ListenError> {
    let listener = Listener {
        open: AddressWatch::open,
        read: |watch: &mut AddressWatch| {
            watch.changed().map(|changed| changed.then_some(Event::AddressesChanged).into_iter().collect())
        },
        missed: || Event::AddressesChanged,
    };
    let watch = AddressWatch::open().map_err(ListenError::Netlink)?;
    let work = move || listener.listen(Some(watch), &events);
    threads::spawn("address-news", work).map(drop).map_err(ListenError::Thread)
}

/// Listens to changes of our rules in nf_tables, if we have an address of our own there, that is if there are any; ends
/// with the loop.
///
/// To be called once the first rules are written: while anybody listens, the kernel describes each of them to him, and that
/// takes nearly as long again as writing them. What happened between is the first thing to be looked at.
pub fn listen_to_rules(own: Vec<u32>, events: Sender<Event>) {
    if own.is_empty() {
        return;
    }
    let mut commit = Commit::new(own);
    let listener = Listener {
        open: NftWatch::open,
        read: move |watch: &mut NftWatch| watch.read().map(|news| commit.take(news)),
        missed: || Event::RulesUncertain,
    };
    let work = move || {
        let watch = NftWatch::open().inspect_err(|error| tell(error, 0)).ok();
        if events.send(Event::RulesUncertain).is_ok() {
            listener.listen(watch, &events);
        }
    };
    if let Err(error) = threads::spawn("rule-news", work) {
        let err = with_causes(&error);
        warn!(err, "Nobody listens to changes of our rules, they are looked at now and then");
    }
}

/// How one kind of news is listened to.
struct Listener<O, R, M> {
    open: O,
    read: R,
    /// What to tell when nobody knows what was missed.
    missed: M,
}

impl<O, R, M> Listener<O, R, M> {
    /// Listens until nobody wants to know. A socket that fails once may fail for ever, and is ready to be read all the while: after
    /// a pause another is opened.
    fn listen<W: AsFd>(mut self, mut watch: Option<W>, events: &Sender<Event>)
    where
        O: Fn() -> Result<W, NetlinkError>,
        R: FnMut(&mut W) -> Result<Vec<Event>, NetlinkError>,
        M: Fn() -> Event,
    {
        let mut failures = 0_u32;
        loop {
            let read = watch.as_mut().map(|watch| {
                wait(watch);
                (self.read)(watch)
            });
            let news = match read {
                Some(Ok(news)) => {
                    failures = 0;
                    news
                }
                failed => {
                    if let Some(Err(error)) = failed {
                        tell(&error, failures);
                    }
                    failures = failures.saturating_add(1);
                    #[expect(
                        clippy::disallowed_methods,
                        reason = "a socket that fails shows no state to wait for"
                    )]
                    std::thread::sleep(PAUSE);
                    watch = (self.open)().inspect_err(|error| tell(error, failures)).ok();
                    vec![(self.missed)()]
                }
            };
            if news.into_iter().any(|event| events.send(event).is_err()) {
                return;
            }
        }
    }
}

/// Told once; what goes on failing is for who wants to know more.
fn tell(error: &NetlinkError, failures: u32) {
    let err = with_causes(error);
    if failures == 0 {
        error!(err, pause = ?PAUSE, "Listening to the kernel failed, it is begun anew");
    } else {
        info!(v = 2, err, failures, "Listening to the kernel fails");
    }
}

/// Waits until there is something to read. That this failed shows in reading, too.
fn wait(watch: &impl AsFd) {
    while let Err(rustix::io::Errno::INTR) = poll(&mut [PollFd::new(watch, PollFlags::IN)], None) {}
}

/// The changes of one commit of somebody else, gathered until the kernel says who it was.
#[derive(Debug)]
struct Commit {
    /// Netlink addresses of our own.
    own: Vec<u32>,
    touched: Vec<(IpFamily, String)>,
}

impl Commit {
    fn new(own: Vec<u32>) -> Self {
        Self { own, touched: Vec::new() }
    }

    fn take(&mut self, news: News) -> Vec<Event> {
        let events = match news {
            News::Events(events) => events,
            News::Missed => {
                self.touched.clear();
                return vec![Event::RulesUncertain];
            }
        };
        let mut drifts = Vec::new();
        for event in events {
            match event.what {
                What::Generation { process, process_name, .. } => {
                    drifts.extend(self.finish(named(process, process_name.as_deref()).as_deref()));
                }
                _ if self.own.contains(&event.port) => {}
                _ => self.touched.extend(described(&event)),
            }
        }
        drifts
    }

    fn finish(&mut self, by: Option<&str>) -> Vec<Event> {
        let touched = std::mem::take(&mut self.touched);
        let of_family = |family| {
            let mut what: Vec<&str> =
                touched.iter().filter(|(of, _)| *of == family).map(|(_, what)| what.as_str()).collect();
            what.dedup();
            (!what.is_empty())
                .then(|| Event::Drift(Drift { family, what: shortened(&what), by: by.map(str::to_owned) }))
        };
        IpFamily::BOTH.into_iter().filter_map(of_family).collect()
    }
}

fn named(process: Option<u32>, name: Option<&str>) -> Option<String> {
    match (process, name) {
        (Some(process), Some(name)) => Some(format!("{name} (process {process})")),
        (Some(process), None) => Some(format!("process {process}")),
        (None, name) => name.map(str::to_owned),
    }
}

/// The first few things that were touched.
fn shortened(what: &[&str]) -> String {
    const MOST: usize = 3;
    if let Some(all) = what.iter().find(|what| what.starts_with("table")) {
        return (*all).to_owned();
    }
    let shown = what.iter().take(MOST).copied().collect::<Vec<_>>().join(", ");
    match what.len().saturating_sub(MOST) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn described(event: &nft::Event) -> Option<(IpFamily, String)> {
    if event.table.as_ref()?.as_str() != nft::TABLE {
        return None;
    }
    let family = match event.family? {
        Family::Ip => IpFamily::V4,
        Family::Ip6 => IpFamily::V6,
    };
    let done = if event.removed { "removed" } else { "added or changed" };
    let what = match &event.what {
        What::Table => format!("table {done}"),
        What::Set(name) => format!("set {name} {done}"),
        What::Elements(set) => format!("elements of {set} {done}"),
        What::Chain(name) => format!("chain {name} {done}"),
        What::Rule(chain) => format!("rule of {chain} {done}"),
        What::Other | What::Generation { .. } => format!("something {done}"),
    };
    Some((family, what))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ferrule_kernel::nft::Name;

    fn event(port: u32, table: &str, what: What) -> nft::Event {
        nft::Event { family: Some(Family::Ip), table: Some(Name::new(table)), port, removed: true, what }
    }

    fn committed() -> nft::Event {
        let what = What::Generation { id: 7, process: Some(42), process_name: Some("nft".to_owned()) };
        nft::Event { family: None, table: None, port: 9, removed: false, what }
    }

    #[test]
    fn a_commit_of_another_program_is_told_once_with_its_name() {
        let mut commit = Commit::new(vec![1]);
        let element = || event(9, nft::TABLE, What::Elements(Name::new("services")));
        assert_eq!(commit.take(News::Events(vec![element(), element()])), []);
        let chain = event(9, nft::TABLE, What::Chain(Name::new("pool-1")));
        let told = commit.take(News::Events(vec![chain, committed()]));
        let what = "elements of services removed, chain pool-1 removed".to_owned();
        let drift = Drift { family: IpFamily::V4, what, by: Some("nft (process 42)".to_owned()) };
        assert_eq!(told, [Event::Drift(drift)]);
    }

    #[test]
    fn our_own_commits_and_other_tables_are_nothing_to_us() {
        let mut commit = Commit::new(vec![1]);
        let ours = event(1, nft::TABLE, What::Table);
        let others = event(9, "firewall", What::Table);
        assert_eq!(commit.take(News::Events(vec![ours, others, committed()])), []);
        assert_eq!(commit.take(News::Missed), [Event::RulesUncertain]);
    }
}
