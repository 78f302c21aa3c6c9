//! The real kube-proxy in ipvs mode, on a kernel that has IPVS: what it leaves is read, and cleaned up.
//!
//! Such a kernel is in the virtual machine of `scripts/vm-ipvs`; elsewhere the tests are skipped.
#![allow(clippy::print_stdout, reason = "a skipped test says so, and how long kube-proxy took")]

mod kernel;
mod node;

use std::time::Instant;

use kernel::SeenNode;
use node::{Node, servers, service_address};

#[test]
fn what_kube_proxy_left_is_read_and_cleaned_up() {
    let Some(node) = Node::new("ipvs") else { return };
    let started = Instant::now();
    let kube_proxy = node.start_kube_proxy();
    let seen = node.wait_until(SeenNode::has_everything, &kube_proxy);
    println!("kube-proxy programmed it in {:?}", started.elapsed());
    node.wait_until_served(&kube_proxy);
    println!("and served after {:?}", started.elapsed());
    assert_eq!(seen.unknown_sets(), Vec::<String>::new());
    assert_eq!(seen.real_servers_of(service_address()), servers());
    kube_proxy.kill().expect("it is killed");
    let started = Instant::now();
    node.clean_up();
    println!("Ferrule cleaned up in {:?}", started.elapsed());
    assert_eq!(node.seen(), SeenNode::default());
    assert_eq!(node.rules(), Vec::<String>::new());
}
