//! The attacks of the threat model (`docs/security.md`) against the real program: hostile objects, hostile API servers, attacks
//! on its ports, another root in the kernel, exhausted resources, hostile configuration files.
//!
//! Prints a table of attack, expected outcome and what was seen. The normal run does the quick part; `make adversary` does all
//! of it. Everything happens in network namespaces that the test makes.
#![allow(clippy::print_stdout, reason = "the test prints a table")]

mod api;
mod configuration;
mod limits;
mod objects;
mod ports;
mod root;
#[path = "../standalone/stand.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod stand;
mod table;
mod victim;

use ferrule_testkit::netns;

use table::{Extent, Table};

#[test]
fn attacks_end_as_expected() {
    if !netns::or_skip() {
        return;
    }
    let mut table = Table::new(Extent::wanted());
    objects::attack(&mut table);
    api::attack(&mut table);
    ports::attack(&mut table);
    root::attack(&mut table);
    limits::attack(&mut table);
    configuration::attack(&mut table);
    table.print();
    table.check();
}
