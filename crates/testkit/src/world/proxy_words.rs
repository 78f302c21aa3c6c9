//! How the proxy is run: `mode nftables`, `detectLocal ClusterCIDR 10.244.0.0/16`, …

use ferrule_model::{IpFamily, NodePortSelector, parse_cidr, parse_ip};
use ferrule_plan::{ExternalIps, LocalDetection, LoopbackNodePorts, Quirks};
use ipnet::IpNet;

use super::World;
use super::words::Words;

pub(super) fn setting(world: &mut World, words: &mut Words<'_>) -> Result<(), String> {
    let key = words.value("a setting")?;
    let view = &mut world.view;
    match key {
        "mode" => view.quirks = quirks(words.value("a mode")?)?,
        "families" => view.families = families(&words.list("families")?)?,
        "detectLocal" => {
            view.local_detection = detection(words)?;
            world.detection_is_stated = true;
        }
        "masqueradeAll" => view.masquerade_all = true,
        "masqueradeBit" => {
            let bit = words.number("a bit")?;
            let usable = u8::try_from(bit).ok().filter(|bit| *bit < 32);
            view.masquerade_bit =
                usable.ok_or_else(|| format!("{bit} is not a bit of the mark (0 to 31)"))?;
        }
        "nodePortAddresses" => view.node_port_addresses = selectors(&words.list("addresses")?)?,
        "loopbackNodePorts" => view.loopback_node_ports = loopback(words.value("a way")?)?,
        "bindAddress" => {
            let text = words.value("an address")?;
            view.bind_address = Some(parse_ip(text).ok_or_else(|| format!("\"{text}\" is not an address"))?);
        }
        "externalIPs" => {
            view.external_ips = match words.value("on, off or within")? {
                "on" => ExternalIps::All,
                "off" => ExternalIps::None,
                "within" => ExternalIps::Within(blocks(&words.list("CIDRs")?)?),
                other => return Err(format!("externalIPs is on, off or within CIDRs, not \"{other}\"")),
            };
        }
        _ => return Err(format!("unknown setting \"{key}\"")),
    }
    Ok(())
}

fn quirks(mode: &str) -> Result<Quirks, String> {
    match mode {
        "plain" => Ok(Quirks::NONE),
        "nftables" => Ok(Quirks::NFTABLES),
        "iptables" => Ok(Quirks::IPTABLES),
        "ipvs" => Ok(Quirks::IPVS),
        _ => Err(format!("unknown mode \"{mode}\" (plain, nftables, iptables, ipvs)")),
    }
}

fn families(texts: &[String]) -> Result<Vec<IpFamily>, String> {
    let family = |text: &String| match text.as_str() {
        "IPv4" => Ok(IpFamily::V4),
        "IPv6" => Ok(IpFamily::V6),
        _ => Err(format!("unknown family \"{text}\"")),
    };
    texts.iter().map(family).collect()
}

fn detection(words: &mut Words<'_>) -> Result<LocalDetection, String> {
    Ok(match words.value("a way to tell local pods")? {
        "none" => LocalDetection::None,
        "NodeCIDR" => LocalDetection::NodeCidrs,
        "ClusterCIDR" => LocalDetection::ClusterCidrs(blocks(&words.list("CIDRs")?)?),
        "BridgeInterface" => LocalDetection::BridgeInterface(words.value("an interface")?.into()),
        "InterfaceNamePrefix" => LocalDetection::InterfaceNamePrefix(words.value("a prefix")?.into()),
        other => return Err(format!("unknown way \"{other}\" to tell local pods")),
    })
}

fn blocks(texts: &[String]) -> Result<Vec<IpNet>, String> {
    let blocks: Option<_> = texts.iter().map(|text| parse_cidr(text)).collect();
    blocks.ok_or_else(|| format!("{texts:?} are not CIDRs"))
}

fn selectors(texts: &[String]) -> Result<Vec<NodePortSelector>, String> {
    let selector = |text: &String| {
        NodePortSelector::parse(text).ok_or_else(|| format!("\"{text}\" is neither CIDR nor keyword"))
    };
    texts.iter().map(selector).collect()
}

fn loopback(text: &str) -> Result<LoopbackNodePorts, String> {
    match text {
        "notServed" => Ok(LoopbackNodePorts::NotServed),
        "inKernel" => Ok(LoopbackNodePorts::InKernel),
        "forwardedOrRejected" => Ok(LoopbackNodePorts::ForwardedOrRejected),
        _ => Err(format!("unknown way \"{text}\" (notServed, inKernel, forwardedOrRejected)")),
    }
}
