//! Settings of the proxy: `mode nftables`, `detectLocal ClusterCIDR 10.244.0.0/16`, …

use ferrule_model::{IpFamily, NodePortSelector, parse_cidr, parse_ip};
use ferrule_plan::{ExternalIps, LocalDetection, LoopbackNodePorts, Quirks};
use ipnet::IpNet;

use super::tokens::Tokens;
use crate::world::World;

pub(in crate::world) fn setting(world: &mut World, tokens: &mut Tokens<'_>) -> Result<(), String> {
    let key = tokens.value("a setting")?;
    let view = &mut world.view;
    match key {
        "mode" => view.quirks = quirks(tokens.value("a mode")?)?,
        "families" => view.families = families(&tokens.list("families")?)?,
        "detectLocal" => {
            view.local_detection = detection(tokens)?;
            world.detection_is_stated = true;
        }
        "masqueradeAll" => view.masquerade_all = true,
        "masqueradeBit" => {
            let bit = tokens.number("a bit")?;
            let usable = u8::try_from(bit).ok().filter(|bit| *bit < 32);
            view.masquerade_bit =
                usable.ok_or_else(|| format!("{bit} is not a bit of the mark (0 to 31)"))?;
        }
        "nodePortAddresses" => view.node_port_addresses = selectors(&tokens.list("addresses")?)?,
        "loopbackNodePorts" => view.loopback_node_ports = loopback(tokens.value("a setting")?)?,
        "bindAddress" => {
            let text = tokens.value("an address")?;
            view.bind_address = Some(parse_ip(text).ok_or_else(|| format!("\"{text}\" is not an address"))?);
        }
        "externalIPs" => {
            view.external_ips = match tokens.value("on, off or within")? {
                "on" => ExternalIps::All,
                "off" => ExternalIps::None,
                "within" => ExternalIps::Within(blocks(&tokens.list("CIDRs")?)?),
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
        "userspace" => Ok(Quirks::USERSPACE),
        _ => Err(format!("unknown mode \"{mode}\" (plain, nftables, iptables, ipvs, userspace)")),
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

fn detection(tokens: &mut Tokens<'_>) -> Result<LocalDetection, String> {
    Ok(match tokens.value("how local pods are detected")? {
        "none" => LocalDetection::None,
        "NodeCIDR" => LocalDetection::NodeCidrs,
        "ClusterCIDR" => LocalDetection::ClusterCidrs(blocks(&tokens.list("CIDRs")?)?),
        "BridgeInterface" => LocalDetection::BridgeInterface(tokens.value("an interface")?.into()),
        "InterfaceNamePrefix" => LocalDetection::InterfaceNamePrefix(tokens.value("a prefix")?.into()),
        other => return Err(format!("unknown detection \"{other}\" of local pods")),
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
        "relayed" => Ok(LoopbackNodePorts::Relayed),
        "forwardedOrRejected" => Ok(LoopbackNodePorts::ForwardedOrRejected),
        _ => Err(format!("unknown setting \"{text}\" (notServed, inKernel, relayed, forwardedOrRejected)")),
    }
}
