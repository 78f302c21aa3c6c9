//! What the tests on the real kernel share: a namespace for each, the table in it, and nodes programmed for a world.
#![allow(dead_code, reason = "every test program uses a part of this")]
#![allow(clippy::print_stdout, reason = "a skipped test says so")]

pub mod counting;
pub mod iptables;
pub mod lab;
pub mod older_layout;
pub mod stream;
pub mod xtables;

use std::net::IpAddr;
use std::process::Command;
use std::time::Duration;
use std::{env, thread};

use ferrule_backends::nftables::Reconciler;
use ferrule_backends::{Trigger, table_family};
use ferrule_kernel::nft::NftClient;
use ferrule_kernel::sys::enter_new_network_namespace;
use ferrule_model::IpFamily;
use ferrule_testkit::World;
use ferrule_testkit::netns::NetWorld;

/// Runs a test in a network namespace of its own; skipped where that is not allowed, but not with `CI=true`.
pub fn in_namespace(test: impl FnOnce() + Send + 'static) {
    let has_nft = Command::new("nft").arg("--version").output().is_ok();
    let ran = thread::spawn(move || has_nft && enter_new_network_namespace().map(|()| test()).is_ok());
    let ran = ran.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    let ci = env::var("CI").is_ok_and(|ci| ci == "true");
    assert!(ran || !ci, "this test needs root, to make network namespaces, and the nft program");
    if !ran {
        println!("skipped: needs root, to make network namespaces, and the nft program");
    }
}

/// An address in a test.
pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address in a test")
}

/// A connection to a family's table in the namespace of this thread.
pub fn client(family: IpFamily) -> NftClient {
    NftClient::open(table_family(family)).expect("a netlink socket")
}

/// Runs nft in the namespace of this thread; what it prints.
pub fn nft(arguments: &[&str]) -> String {
    let output = Command::new("nft").args(arguments).output().expect("the nft program");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "nft {arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Programs the node of a network for a world's plan, in every family it serves.
pub fn program(net: &NetWorld, world: &World) {
    for (family, plan) in world.plan.families.iter() {
        let plan = plan.clone();
        let synced = net.node().run(move || {
            Reconciler::new(client(family))
                .sync(&plan, Trigger::verify())
                .map(|_| ())
                .map_err(|error| format!("{error:?}"))
        });
        synced.expect("the node's namespace").expect("a sync");
    }
}

/// Lets time pass, where time itself is what a test is about.
#[expect(clippy::disallowed_methods, reason = "packets on their way show no state to wait for")]
pub fn pause(time: Duration) {
    thread::sleep(time);
}
