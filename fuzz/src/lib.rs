//! What every target does with an object: distil it, take it in, plan, show.

use ferrule_model::{Cluster, NodeName, parse_ip};
use ferrule_plan::{LocalDetection, NodeView, Quirks, plan, replan, show};
use ferrule_watch::convert::Converted;

/// The node all of this happens on.
pub fn own_node() -> NodeName {
    NodeName::new("node-a")
}

/// Takes objects in one after the other; planning step by step must come to the same as planning afresh.
/// Which mode's quirks to plan with is drawn from the input's length.
pub fn plan_all(length: usize, objects: impl IntoIterator<Item = Converted>) {
    let modes = [Quirks::NONE, Quirks::NFTABLES, Quirks::IPTABLES, Quirks::IPVS];
    let host = ["127.0.0.1", "::1", "192.0.2.10", "2001:db8::10"];
    let view = NodeView {
        quirks: modes[length % modes.len()],
        local_detection: LocalDetection::NodeCidrs,
        interface_addresses: host.iter().filter_map(|text| parse_ip(text)).collect(),
        ..NodeView::new(own_node())
    };
    let mut cluster = Cluster::default();
    let (mut stepwise, _) = plan(&cluster, &view);
    for object in objects {
        for diagnostic in &object.diagnostics {
            assert!(!diagnostic.field.is_empty(), "a diagnostic names its field");
            assert!(!diagnostic.to_string().contains('\n'), "a diagnostic is one line");
        }
        let Some(change) = object.change else { continue };
        let touched = cluster.apply(change).touched;
        replan(&mut stepwise, &cluster, &touched, &view);
    }
    let (fresh, _) = plan(&cluster, &view);
    assert!(stepwise == fresh, "replanning equals planning");
    assert_eq!(show(&stepwise), show(&fresh));
}
