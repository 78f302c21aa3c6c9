//! What the tests of iptables share: a namespace for each, and the programs in it.

use std::process::Command;
use std::{env, thread};

use ferrule_kernel::iptables::{IptablesCommands, Saved, TableAccess, Variant};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::XTables;
use ferrule_kernel::sys::enter_new_network_namespace;

/// Runs a test in a network namespace of its own; skipped where that is not allowed or iptables is missing, but not with
/// `CI=true`.
pub fn with_iptables(test: impl FnOnce() + Send + 'static) {
    let has_programs =
        ["iptables-nft", "iptables-legacy"].iter().all(|name| Command::new(name).arg("-V").output().is_ok());
    let ran = thread::spawn(move || has_programs && enter_new_network_namespace().map(|()| test()).is_ok());
    let ran = ran.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let ci = env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(ran || !ci, "this test needs root, to make network namespaces, and the iptables programs");
    if !ran {
        println!("skipped: needs root, to make network namespaces, and the iptables programs");
    }
}

/// How rules are read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Writer {
    /// The `nft` variant's rules over netlink.
    Netlink,
    /// The programs of a variant.
    Programs(Variant),
}

impl Writer {
    pub const ALL: [Self; 3] = [Self::Netlink, Self::Programs(Variant::Nft), Self::Programs(Variant::Legacy)];

    /// Whose rules these are.
    pub fn variant(self) -> Variant {
        match self {
            Self::Netlink => Variant::Nft,
            Self::Programs(variant) => variant,
        }
    }

    pub fn access(self) -> TableAccess {
        match self {
            Self::Netlink => TableAccess::Netlink(Family::Ip),
            Self::Programs(variant) => TableAccess::Commands(IptablesCommands::new(Family::Ip, variant)),
        }
    }

    /// The tables, opened in the namespace of this thread.
    pub fn tables(self) -> Box<dyn XTables + Send> {
        self.access().open().expect("the tables")
    }
}

/// The same with each writer, each in a namespace of its own.
pub fn with_each_writer(test: fn(Writer)) {
    for writer in Writer::ALL {
        with_iptables(move || test(writer));
    }
}

/// The same where programs run: over netlink there is no lock.
pub fn with_each_program(test: fn(Writer)) {
    for variant in Variant::BOTH {
        with_iptables(move || test(Writer::Programs(variant)));
    }
}

/// What the program that handles a writer's rules is called.
pub fn name(writer: Writer) -> String {
    IptablesCommands::new(Family::Ip, writer.variant()).name("")
}

/// Every combination of family and variant.
pub fn every_program() -> Vec<IptablesCommands> {
    let families = [Family::Ip, Family::Ip6].into_iter();
    families.flat_map(|family| Variant::BOTH.map(|variant| IptablesCommands::new(family, variant))).collect()
}

/// The rules there are.
pub fn saved(mut tables: impl XTables) -> Saved {
    tables.save().expect("iptables-save")
}

/// Runs one of the programs in the namespace of this thread; what it prints.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().expect("the program");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether the programs are there; says so if not, and insists with `CI=true`.
pub fn has_iptables() -> bool {
    let has = Command::new("iptables-nft").arg("-V").output().is_ok();
    let ci = env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(has || !ci, "this test needs the iptables programs");
    if !has {
        println!("skipped: needs the iptables programs");
    }
    has
}
