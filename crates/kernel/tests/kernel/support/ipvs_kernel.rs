//! A kernel with IPVS and dummy interfaces, which not every machine has.

use std::process::Command;
use std::{env, thread};

use ferrule_kernel::dummy::LinkClient;
use ferrule_kernel::ipvs::Ipvs;
use ferrule_kernel::port::ServiceInterface as _;

use super::namespace::in_namespace;

/// Set where the kernel is known to have them: in the virtual machine of `scripts/vm`.
const EXPECTED: &str = "FERRULE_TEST_IPVS";

/// Runs a test in a network namespace of its own, if the kernel has IPVS.
pub fn with_ipvs(test: impl FnOnce(Ipvs) + Send + 'static) {
    in_namespace(|| match Ipvs::open_loaded().unwrap() {
        Some(ipvs) => {
            // Without a routing table, which the first address makes, the kernel takes all addresses to be broadcasts and rejects
            // IPv4 servers.
            printed("ip", &["link", "set", "lo", "up"]);
            test(ipvs);
        }
        None => skip("no IPVS"),
    });
}

/// Runs a test in a network namespace of its own, if the kernel has dummy interfaces.
pub fn with_dummies(test: impl FnOnce(LinkClient) + Send + 'static) {
    in_namespace(|| {
        let mut links = LinkClient::open().unwrap();
        match links.create_dummy("probe") {
            Ok(link) => {
                links.delete(&link).unwrap();
                test(links);
            }
            Err(error) => skip(&format!("no dummy interfaces: {error:?}")),
        }
    });
}

/// What a program prints.
pub fn printed(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn skip(reason: &str) {
    assert!(env::var_os(EXPECTED).is_none(), "this kernel has {reason}");
    println!("{}: skipped, this kernel has {reason}", thread::current().name().unwrap_or_default());
}
