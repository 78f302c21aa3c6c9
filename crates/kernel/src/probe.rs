//! Checks once, at the start, what this kernel supports and permits, with advice for what is missing.
//!
//! Changes nothing: the trial transaction is made to fail.

use rustix::io::Errno;

use crate::conntrack::{Conntrack, UDP};
use crate::netlink::NetlinkError;
use crate::nft::{
    Chain, ChainKind, CommitError, Expression, Family, FibAddress, Hook, HookPoint, Name, NftClient, Rule,
    SeenTable, Transaction,
};
use crate::port::{NftReader as _, NftTables as _};
use crate::sysctl;

/// The result of [`probe`].
#[derive(Debug)]
pub struct Findings {
    /// The kernel's release, such as `6.18.3`.
    pub kernel: String,
    /// Whether tables of IPv4 can be used.
    pub ipv4: Result<(), ProbeError>,
    /// Whether tables of IPv6 can be used.
    pub ipv6: Result<(), ProbeError>,
    /// Whether flows can be listed.
    pub conntrack: Result<(), ProbeError>,
}

/// Something that does not work here, with advice.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A capability is missing.
    #[error("{what}: not permitted; run with the capability CAP_NET_ADMIN in this network namespace")]
    NotPermitted {
        /// What we tried.
        what: String,
        /// The kernel's reply.
        #[source]
        source: NetlinkError,
    },
    /// The kernel lacks a feature.
    #[error(
        "{what}: this kernel ({kernel}) has no such part; load the module {module} or use a kernel that has it"
    )]
    Missing {
        /// What we tried.
        what: String,
        /// The kernel's release.
        kernel: String,
        /// The module that has the feature.
        module: &'static str,
        /// The kernel's reply.
        #[source]
        source: NetlinkError,
    },
    /// The table belongs to another program, which alone may change it.
    #[error(
        "table {family} {table} is owned by another program (netlink portid {owner}); stop that program, the table \
         goes with it"
    )]
    Owned {
        /// The table's family.
        family: Family,
        /// The table.
        table: String,
        /// The owner's netlink portid, mostly its process id.
        owner: u32,
    },
    /// Anything else.
    #[error("{what}")]
    Failed {
        /// What we tried.
        what: String,
        /// Why it failed.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Probes the kernel for the table that we are going to write.
pub fn probe(table: &str) -> Findings {
    let kernel = sysctl::read("kernel/osrelease").unwrap_or_else(|_| "unknown".to_owned());
    Findings {
        ipv4: tables(Family::Ip, table, &kernel),
        ipv6: tables(Family::Ip6, table, &kernel),
        conntrack: flows(&kernel),
        kernel,
    }
}

/// Like [`probe`], for reading alone: nothing is tried that a program could notice.
pub fn probe_reading(table: &str) -> Findings {
    let kernel = sysctl::read("kernel/osrelease").unwrap_or_else(|_| "unknown".to_owned());
    Findings {
        ipv4: readable(Family::Ip, table, &kernel).map(drop),
        ipv6: readable(Family::Ip6, table, &kernel).map(drop),
        conntrack: Ok(()),
        kernel,
    }
}

/// The table, if there is one and tables can be read.
fn readable(family: Family, table: &str, kernel: &str) -> Result<Option<SeenTable>, ProbeError> {
    let what = format!("using nftables for {family}");
    let failed = |error| Attempt { what: &what, kernel, module: "nf_tables" }.failed(error);
    let mut client = NftClient::open_table(family, table).map_err(failed)?;
    client.generation().map_err(failed)?;
    client.table().map_err(failed)
}

fn tables(family: Family, table: &str, kernel: &str) -> Result<(), ProbeError> {
    let seen = readable(family, table, kernel)?;
    if let Some(owner) = seen.and_then(|table| table.owner) {
        return Err(ProbeError::Owned { family, table: table.to_owned(), owner });
    }
    writes(family, kernel)
}

/// Whether we may write, and whether the kernel knows every expression that we use.
///
/// The transaction fails at its last step, so that nothing changes, not even the ruleset generation, by which a restarted
/// proxy knows that its table is untouched.
fn writes(family: Family, kernel: &str) -> Result<(), ProbeError> {
    let what = format!("writing nftables rules for {family}");
    let failed = |what: &str, error| Attempt { what, kernel, module: "nf_tables" }.failed(error);
    let name = format!("ferrule-probe-{}", std::process::id());
    let mut client = NftClient::open_table(family, &name).map_err(|error| failed(&what, error))?;
    match client.commit(&rehearsal()) {
        Ok(_) => Ok(()),
        Err(CommitError::Rejected { operation, rejection, .. })
            if operation == LAST_STEP && rejection.is(Errno::NOENT) =>
        {
            Ok(())
        }
        Err(CommitError::Rejected { operation, rejection, .. }) => {
            let what = format!("{what} ({operation})");
            Err(failed(&what, NetlinkError::Rejected { operation: "rehearsing a transaction", rejection }))
        }
        Err(CommitError::Unknown { source, .. }) => Err(failed(&what, source)),
        Err(error) => Err(ProbeError::Failed { what, source: error.into() }),
    }
}

const LAST_STEP: &str = "deleting set that-never-was";

/// One chain for each expression that may be missing, named after it.
fn rehearsal() -> Transaction {
    let hook = Hook { kind: ChainKind::Nat, point: HookPoint::Prerouting, priority: -100 };
    let chain = |name: &str, hook, expressions| Chain {
        name: Name::new(name),
        hook,
        rules: vec![Rule { expressions, comment: None }],
        comment: None,
    };
    let number = Expression::RandomNumber { modulus: 2, to: 1 };
    let mut rehearsal = Transaction::new();
    rehearsal.add_table().add_chain(chain("nat", Some(hook), vec![]));
    for (name, expressions) in [
        ("numgen", vec![number.clone()]),
        ("hash", vec![number, Expression::Hash { from: 1, length: 4, modulus: 2, seed: 1, to: 1 }]),
        ("fib", vec![Expression::AddressType { of: FibAddress::Destination, to: 1 }]),
        ("ct", vec![Expression::ConnectionState { to: 1 }]),
        ("masquerade", vec![Expression::Masquerade]),
        ("reject", vec![Expression::Reject]),
    ] {
        rehearsal.add_chain(chain(name, None, expressions));
    }
    rehearsal.delete_set(Name::new("that-never-was"));
    rehearsal
}

fn flows(kernel: &str) -> Result<(), ProbeError> {
    let what = "listing conntrack's flows";
    let listed = Conntrack::open().and_then(|mut conntrack| conntrack.flows(Family::Ip, UDP));
    match listed {
        Ok(_) => Ok(()),
        Err(error) => Err(Attempt { what, kernel, module: "nf_conntrack_netlink" }.failed(error)),
    }
}

/// What was tried, and the module that has it.
struct Attempt<'a> {
    what: &'a str,
    kernel: &'a str,
    module: &'static str,
}

impl Attempt<'_> {
    fn failed(&self, source: NetlinkError) -> ProbeError {
        let what = self.what.to_owned();
        match errno(&source) {
            Some(Errno::PERM | Errno::ACCESS) => ProbeError::NotPermitted { what, source },
            Some(
                Errno::INVAL | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT | Errno::NOENT,
            ) => {
                let kernel = self.kernel.to_owned();
                ProbeError::Missing { what, kernel, module: self.module, source }
            }
            _ => ProbeError::Failed { what, source: source.into() },
        }
    }
}

fn errno(error: &NetlinkError) -> Option<Errno> {
    match error {
        NetlinkError::Rejected { rejection, .. } => Some(Errno::from_raw_os_error(rejection.errno)),
        NetlinkError::Open { source, .. }
        | NetlinkError::Subscribe { source }
        | NetlinkError::Send { source, .. }
        | NetlinkError::Receive { source, .. } => Errno::from_io_error(source),
        NetlinkError::Interrupted { .. } | NetlinkError::Unreadable { .. } => None,
    }
}
