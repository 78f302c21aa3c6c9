//! Listens to the kernel: who touched our rules, and whether the host's addresses changed.
//!
//! One thread for both. What is to be done about it is the loop's matter.

use std::io;
use std::sync::mpsc::SyncSender as Sender;
use std::time::Duration;

use ferrule_kernel::interfaces::AddressWatch;
use ferrule_kernel::netlink::NetlinkError;
use ferrule_kernel::nft::{self, Family, News, NftWatch, What};
use ferrule_model::IpFamily;
use rustix::event::{PollFd, PollFlags, poll};
use tracing::error;

use super::Event;
use crate::causes::with_causes;

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

/// Listens from now on; ends with the loop. Who has no address of his own in nf_tables has no rules there to watch.
pub fn listen(own: Vec<u32>, events: Sender<Event>) -> Result<(), ListenError> {
    let watch = || NftWatch::open().map_err(ListenError::Netlink);
    let mut rules = if own.is_empty() { None } else { Some(watch()?) };
    let mut addresses = AddressWatch::open().map_err(ListenError::Netlink)?;
    let work = move || {
        let mut commit = Commit::new(own);
        loop {
            let (mut news, problem) = match wait(rules.as_ref(), &addresses) {
                Ok(()) => read(&mut commit, rules.as_mut(), &mut addresses),
                Err(error) => (Vec::new(), Some(with_causes(&error))),
            };
            if let Some(err) = problem {
                error!(err, pause = ?PAUSE, "Listening to the kernel failed, it is begun anew");
                listen_anew(rules.as_mut(), &mut addresses);
                // Nobody knows what was missed.
                news = commit.take(News::Missed);
                news.push(Event::AddressesChanged);
            }
            if news.into_iter().any(|event| events.send(event).is_err()) {
                return;
            }
        }
    };
    std::thread::Builder::new().name("kernel-news".to_owned()).spawn(work).map_err(ListenError::Thread)?;
    Ok(())
}

/// What there is to tell, and what went wrong.
fn read(
    commit: &mut Commit,
    rules: Option<&mut NftWatch>,
    addresses: &mut AddressWatch,
) -> (Vec<Event>, Option<String>) {
    let mut news = Vec::new();
    let of_rules = rules.map_or(Ok(()), |rules| rules.read().map(|read| news.extend(commit.take(read))));
    let of_addresses =
        addresses.changed().map(|changed| news.extend(changed.then_some(Event::AddressesChanged)));
    (news, of_rules.and(of_addresses).err().map(|error| with_causes(&error)))
}

/// A socket that fails once may fail for ever, and is ready to be read all the while: after a pause others are opened. Where that
/// fails too the old ones stay, for the next try.
fn listen_anew(rules: Option<&mut NftWatch>, addresses: &mut AddressWatch) {
    #[expect(clippy::disallowed_methods, reason = "a socket that fails shows no state to wait for")]
    std::thread::sleep(PAUSE);
    if let Some(rules) = rules {
        replace(rules, NftWatch::open());
    }
    replace(addresses, AddressWatch::open());
}

fn replace<W>(watch: &mut W, opened: Result<W, NetlinkError>) {
    match opened {
        Ok(new) => *watch = new,
        Err(error) => error!(err = with_causes(&error), "Opening a socket to listen to the kernel"),
    }
}

/// Why nobody listens.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The kernel does not let us.
    #[error("listening to changes of nftables rules and addresses")]
    Netlink(#[source] NetlinkError),
    /// There is no thread for it.
    #[error("starting the thread that listens to the kernel")]
    Thread(#[source] io::Error),
}

fn wait(rules: Option<&NftWatch>, addresses: &AddressWatch) -> io::Result<()> {
    let mut descriptors = vec![PollFd::new(addresses, PollFlags::IN)];
    descriptors.extend(rules.map(|rules| PollFd::new(rules, PollFlags::IN)));
    loop {
        match poll(&mut descriptors, None) {
            Ok(_) => return Ok(()),
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
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
