//! The program itself on a real API server and a real kernel: each test is a node of its own, in namespaces of its own, on
//! one cluster that all share.

mod answers;
mod events;
mod outages;
mod peer;
mod process;
mod questions;
mod refusals;
mod serving;
mod site;
