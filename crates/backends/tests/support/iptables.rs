//! What the tests of iptables share: a namespace for each, and the programs in it.

use std::process::Command;
use std::{env, thread};

use ferrule_kernel::iptables::{IptablesCommands, Saved, Variant};
use ferrule_kernel::nft::Family;
use ferrule_kernel::port::XTables as _;
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

/// The same with each variant, each in a namespace of its own.
pub fn with_each_variant(test: fn(Variant)) {
    for variant in Variant::BOTH {
        with_iptables(move || test(variant));
    }
}

/// What the program of a variant is called.
pub fn name(variant: Variant) -> String {
    IptablesCommands::new(Family::Ip, variant).name("")
}

/// Every combination of family and variant.
pub fn every_program() -> Vec<IptablesCommands> {
    let families = [Family::Ip, Family::Ip6].into_iter();
    families.flat_map(|family| Variant::BOTH.map(|variant| IptablesCommands::new(family, variant))).collect()
}

/// The rules there are.
pub fn saved(mut commands: IptablesCommands) -> Saved {
    commands.save().expect("iptables-save")
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
