//! The attacks of the threat model (`docs/security.md`) against the real program: hostile objects, hostile API servers, attacks
//! on its ports, another root in the kernel, exhausted resources, hostile configuration files.
//!
//! Prints a table of attack, expected outcome and what was seen. The normal run does the quick part; `make adversary` does all
//! of it. Everything happens in network namespaces that the test makes.
#![allow(clippy::print_stdout, reason = "the test prints a table")]

mod api;
mod borrowed;
mod clock;
mod configuration;
mod connection_table;
mod kernel_memory;
mod limits;
mod lock;
mod network;
mod objects;
mod ports;
mod root;
mod runtime_profile;
#[path = "../standalone/stand.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod stand;
mod table;
mod tls;
mod victim;

use ferrule::descriptors;
use ferrule_testkit::netns;

use table::{Extent, Table};

#[test]
fn attacks_end_as_expected() {
    if !netns::or_skip() {
        return;
    }
    // Attackers hold many connections.
    descriptors::raise_limit();
    let mut table = Table::new(Extent::wanted());
    let lock = lock::begin(&table);
    let wait = api::begin_wait(&table);
    objects::attack(&mut table);
    api::attack(&mut table);
    tls::attack(&mut table);
    ports::attack(&mut table);
    network::attack(&mut table);
    root::attack(&mut table);
    limits::attack(&mut table);
    kernel_memory::attack(&mut table);
    connection_table::attack(&mut table);
    runtime_profile::attack(&mut table);
    clock::attack(&mut table);
    configuration::attack(&mut table);
    api::finish_wait(&mut table, wait);
    lock::finish(&mut table, lock);
    table.print();
    table.check();
}
