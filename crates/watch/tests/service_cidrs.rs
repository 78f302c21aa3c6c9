//! ServiceCIDR objects that come and go: every change touches the whole set.

use std::collections::BTreeSet;

use ferrule_model::{Change, Cluster, IpFamily, Touched};
use ferrule_watch::{api, convert};
use serde_json::json;

fn put(cluster: &mut Cluster, name: &str, cidrs: &[&str]) -> Touched {
    let object = json!({ "metadata": { "name": name }, "spec": { "cidrs": cidrs } });
    let object: api::ServiceCidr = serde_json::from_value(object).expect("a ServiceCIDR a decoder can read");
    let change = convert::service_cidr(&object).change.expect("it says something");
    cluster.apply(change).touched
}

fn all(cluster: &Cluster) -> BTreeSet<String> {
    let of = |family: &IpFamily| cluster.service_cidrs(*family);
    IpFamily::BOTH.iter().flat_map(of).map(|block| block.to_string()).collect()
}

/// Row: server 8.12 #3
#[test]
fn a_change_of_one_touches_the_whole_set() {
    let mut cluster = Cluster::default();
    let touched = Touched { service_cidrs: true, ..Touched::default() };
    let set = |blocks: &[&str]| blocks.iter().map(ToString::to_string).collect::<BTreeSet<_>>();

    assert_eq!(put(&mut cluster, "kubernetes", &["10.96.0.0/12", "fd00:10::/112"]), touched, "the first");
    assert_eq!(put(&mut cluster, "more", &["10.200.0.0/24"]), touched, "one is added");
    assert_eq!(all(&cluster), set(&["10.96.0.0/12", "10.200.0.0/24", "fd00:10::/112"]));

    assert_eq!(put(&mut cluster, "more", &["10.201.0.0/24"]), touched, "one is changed");
    assert_eq!(all(&cluster), set(&["10.96.0.0/12", "10.201.0.0/24", "fd00:10::/112"]));
    assert_eq!(put(&mut cluster, "more", &["10.201.0.0/24"]), Touched::default(), "nothing is changed");

    assert_eq!(cluster.apply(Change::ServiceCidr("more".into(), None)).touched, touched, "one is deleted");
    assert_eq!(all(&cluster), set(&["10.96.0.0/12", "fd00:10::/112"]));
}
