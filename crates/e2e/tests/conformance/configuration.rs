//! How a story says a proxy is run, as the configuration file that both proxies read.

use std::path::Path;

use ferrule_model::NodePortSelector;
use ferrule_plan::{LocalDetection, LoopbackNodePorts, NodeView, Quirks};
use serde_json::{Value, json};

/// The mode whose quirks are planned with; nftables mode's where there are none.
pub fn mode(view: &NodeView) -> &'static str {
    match view.quirks {
        Quirks::IPTABLES => "iptables",
        Quirks::IPVS => "ipvs",
        _ => "nftables",
    }
}

/// The same file for both. They wait as little as they may between two syncs, so that a run takes minutes.
pub fn configuration(view: &NodeView, kubeconfig: &Path) -> Value {
    let in_kernel = view.loopback_node_ports == LoopbackNodePorts::InKernel;
    let selectors: Vec<String> = view.node_port_addresses.iter().map(selector).collect();
    let mut file = json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration",
        "clientConnection": { "kubeconfig": kubeconfig },
        "hostnameOverride": view.name.as_str(),
        "mode": mode(view),
        "nodePortAddresses": selectors,
        "nftables": {
            "masqueradeAll": view.masquerade_all, "masqueradeBit": view.masquerade_bit, "minSyncPeriod": "10ms",
        },
        "iptables": {
            "masqueradeAll": view.masquerade_all, "masqueradeBit": view.masquerade_bit, "minSyncPeriod": "10ms",
            "localhostNodePorts": in_kernel,
        },
        "ipvs": { "minSyncPeriod": "100ms" },
        // A namespace may not write these.
        "conntrack": {
            "maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
        },
    });
    match &view.local_detection {
        LocalDetection::None => {}
        LocalDetection::NodeCidrs => file["detectLocalMode"] = json!("NodeCIDR"),
        LocalDetection::ClusterCidrs(blocks) => {
            let blocks: Vec<String> = blocks.iter().map(ToString::to_string).collect();
            file["detectLocalMode"] = json!("ClusterCIDR");
            file["clusterCIDR"] = json!(blocks.join(","));
        }
        LocalDetection::BridgeInterface(name) => {
            file["detectLocalMode"] = json!("BridgeInterface");
            file["detectLocal"] = json!({ "bridgeInterface": name });
        }
        LocalDetection::InterfaceNamePrefix(prefix) => {
            file["detectLocalMode"] = json!("InterfaceNamePrefix");
            file["detectLocal"] = json!({ "interfaceNamePrefix": prefix });
        }
    }
    file
}

fn selector(selector: &NodePortSelector) -> String {
    match selector {
        NodePortSelector::Cidr(block) => block.to_string(),
        NodePortSelector::Primary => "primary".into(),
        NodePortSelector::Localhost => "localhost".into(),
        NodePortSelector::All => "all".into(),
    }
}
