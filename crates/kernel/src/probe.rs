//! What this kernel lets us do, asked once at the start, with advice for what is missing.
//!
//! Changes nothing: what is tried is tried in a transaction that is meant to fail.

use rustix::io::Errno;

use crate::conntrack::{Conntrack, UDP};
use crate::netlink::NetlinkError;
use crate::nft::{
    Chain, ChainKind, CommitError, Expression, Family, FibAddress, Hook, HookPoint, Name, NftClient, Rule,
    Transaction,
};
use crate::sysctl;

/// What was found.
#[derive(Debug)]
pub struct Findings {
    /// The kernel's release, such as `6.18.3`.
    pub kernel: String,
    /// Whether tables of IPv4 can be used.
    pub ipv4: Result<(), Unusable>,
    /// Whether tables of IPv6 can be used.
    pub ipv6: Result<(), Unusable>,
    /// Whether flows can be listed.
    pub conntrack: Result<(), Unusable>,
}

/// Something that does not work here, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// We may not.
    #[error("{what}: not permitted; run with the capability CAP_NET_ADMIN in this network namespace")]
    NotPermitted {
        /// What we tried.
        what: String,
        /// What the kernel said.
        #[source]
        source: NetlinkError,
    },
    /// The kernel cannot.
    #[error(
        "{what}: this kernel ({kernel}) has no such part; load the module {module} or use a kernel that has it"
    )]
    Missing {
        /// What we tried.
        what: String,
        /// The kernel's release.
        kernel: String,
        /// The module that would help.
        module: &'static str,
        /// What the kernel said.
        #[source]
        source: NetlinkError,
    },
    /// The table belongs to another program, which alone may change it.
    #[error(
        "table {family} {table} is owned by another program (netlink address {owner}); stop that program, the table \
         goes with it"
    )]
    Owned {
        /// The table's family.
        family: Family,
        /// The table.
        table: String,
        /// The owner's netlink address, mostly its process id.
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

/// Asks the kernel. The table is the one we are going to write.
pub fn probe(table: &str) -> Findings {
    let kernel = sysctl::read("kernel/osrelease").unwrap_or_else(|_| "unknown".to_owned());
    Findings {
        ipv4: tables(Family::Ip, table, &kernel),
        ipv6: tables(Family::Ip6, table, &kernel),
        conntrack: flows(&kernel),
        kernel,
    }
}

fn tables(family: Family, table: &str, kernel: &str) -> Result<(), Unusable> {
    let what = format!("using nftables for {family}");
    let unusable = |error| unusable(&what, (kernel, "nf_tables"), error);
    let mut client = NftClient::open_table(family, table).map_err(unusable)?;
    client.generation().map_err(unusable)?;
    let seen = client.table().map_err(unusable)?;
    if let Some(owner) = seen.and_then(|table| table.owner) {
        return Err(Unusable::Owned { family, table: table.to_owned(), owner });
    }
    writes(family, kernel)
}

/// Whether we may write, and everything we write is known here.
///
/// A transaction that is refused at its last step, so that nothing ever happens: not even the generation of the rules
/// changes, by which a restarted proxy knows that nothing else did.
fn writes(family: Family, kernel: &str) -> Result<(), Unusable> {
    let what = format!("writing nftables rules for {family}");
    let failed = |what: &str, error| unusable(what, (kernel, "nf_tables"), error);
    let name = format!("ferrule-probe-{}", std::process::id());
    let mut client = NftClient::open_table(family, &name).map_err(|error| failed(&what, error))?;
    match client.commit(&rehearsal()) {
        Ok(_) => Ok(()),
        Err(CommitError::Refused { operation, refusal, .. })
            if operation == LAST_STEP && refusal.is(Errno::NOENT) =>
        {
            Ok(())
        }
        Err(CommitError::Refused { operation, refusal, .. }) => {
            let what = format!("{what} ({operation})");
            Err(failed(&what, NetlinkError::Refused { operation: "rehearsing a transaction", refusal }))
        }
        Err(CommitError::Unknown { source, .. }) => Err(failed(&what, source)),
        Err(error) => Err(Unusable::Failed { what, source: error.into() }),
    }
}

const LAST_STEP: &str = "deleting set that-never-was";

/// One chain for each kind of rule that may be missing, named after it.
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

fn flows(kernel: &str) -> Result<(), Unusable> {
    let what = "listing conntrack's flows";
    let listed = Conntrack::open().and_then(|mut conntrack| conntrack.flows(Family::Ip, UDP));
    match listed {
        Ok(_) => Ok(()),
        Err(error) => Err(unusable(what, (kernel, "nf_conntrack_netlink"), error)),
    }
}

fn unusable(what: &str, (kernel, module): (&str, &'static str), source: NetlinkError) -> Unusable {
    let what = what.to_owned();
    match errno(&source) {
        Some(Errno::PERM | Errno::ACCESS) => Unusable::NotPermitted { what, source },
        Some(Errno::INVAL | Errno::OPNOTSUPP | Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT | Errno::NOENT) => {
            Unusable::Missing { what, kernel: kernel.to_owned(), module, source }
        }
        _ => Unusable::Failed { what, source: source.into() },
    }
}

fn errno(error: &NetlinkError) -> Option<Errno> {
    match error {
        NetlinkError::Refused { refusal, .. } => Some(Errno::from_raw_os_error(refusal.errno)),
        NetlinkError::Open { source, .. }
        | NetlinkError::Send { source, .. }
        | NetlinkError::Receive { source, .. } => Errno::from_io_error(source),
        NetlinkError::Interrupted { .. } | NetlinkError::Unreadable { .. } => None,
    }
}
