//! ServiceCIDR objects as they come and go: what is told is always all there is.

use std::collections::BTreeSet;

use ferrule_model::{Change, Cluster, IpFamily, Touched};
use ferrule_watch::{api, convert};
use serde_json::json;

fn put(cluster: &mut Cluster, name: &str, cidrs: &[&str]) -> Touched {
    let object = json!({ "metadata": { "name": name }, "spec": { "cidrs": cidrs } });
    let object: api::ServiceCidr = serde_json::from_value(object).expect("a ServiceCIDR a decoder can read");
    let change = convert::service_cidr(&object).change.expect("it says something");
    cluster.apply(change)
}

fn all(cluster: &Cluster) -> BTreeSet<String> {
    let of = |family: &IpFamily| cluster.service_cidrs(*family);
    IpFamily::BOTH.iter().flat_map(of).map(|block| block.to_string()).collect()
}

/// Row: server 8.12 #3
#[test]
fn whatever_happens_to_one_the_whole_set_is_told() {
    let mut cluster = Cluster::default();
    let told = Touched { service_cidrs: true, ..Touched::default() };
    let set = |blocks: &[&str]| blocks.iter().map(ToString::to_string).collect::<BTreeSet<_>>();

    assert_eq!(put(&mut cluster, "kubernetes", &["10.96.0.0/12", "fd00:10::/112"]), told, "the first");
    assert_eq!(put(&mut cluster, "more", &["10.200.0.0/24"]), told, "one is added");
    assert_eq!(all(&cluster), set(&["10.96.0.0/12", "10.200.0.0/24", "fd00:10::/112"]));

    assert_eq!(put(&mut cluster, "more", &["10.201.0.0/24"]), told, "one is changed");
    assert_eq!(all(&cluster), set(&["10.96.0.0/12", "10.201.0.0/24", "fd00:10::/112"]));
    assert_eq!(put(&mut cluster, "more", &["10.201.0.0/24"]), Touched::default(), "nothing is changed");

    assert_eq!(cluster.apply(Change::ServiceCidr("more".into(), None)), told, "one is deleted");
    assert_eq!(all(&cluster), set(&["10.96.0.0/12", "fd00:10::/112"]));
}
