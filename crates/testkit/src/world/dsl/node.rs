//! `node a addresses 192.0.2.1 podCIDR 10.244.1.0/24 zone z`, and the cluster's service ranges.

use ferrule_model::{NodeName, parse_cidr, parse_ip};
use ferrule_plan::LocalDetection;
use ferrule_watch::{api, convert};

use super::tokens::Tokens;
use crate::world::World;

/// This node. Its addresses are also on its interfaces, in addition to the loopback ones.
pub(in crate::world) fn node(world: &mut World, tokens: &mut Tokens<'_>) -> Result<(), String> {
    let name = tokens.value("a node name")?;
    let mut object = api::Node::default();
    object.metadata.name = name.into();
    let mut on_interfaces = vec!["127.0.0.1".to_string(), "::1".to_string()];
    while let Some(key) = tokens.next() {
        match key {
            "addresses" => add_addresses(&mut object, "InternalIP", tokens.list("addresses")?),
            "externalAddresses" => add_addresses(&mut object, "ExternalIP", tokens.list("addresses")?),
            "alsoOn" => on_interfaces.extend(tokens.list("addresses")?),
            "podCIDR" => object.spec.pod_cidrs = tokens.list("pod CIDRs")?,
            "zone" => object.metadata.labels.zone = Some(tokens.value("a zone")?.into()),
            "taint" => object.spec.taints.push(api::Taint { key: tokens.value("a taint")?.into() }),
            _ => return Err(format!("unknown word \"{key}\" about a node")),
        }
    }
    on_interfaces.extend(object.status.addresses.iter().map(|address| address.address.clone()));
    world.view.interface_addresses = on_interfaces.iter().filter_map(|text| parse_ip(text)).collect();
    if !world.detection_is_stated {
        world.view.local_detection =
            if object.spec.pod_cidrs.is_empty() { LocalDetection::None } else { LocalDetection::NodeCidrs };
    }
    world.view.name = NodeName::new(name);
    world.take(convert::node(&object));
    world.node = object;
    world.node_renamed();
    Ok(())
}

fn add_addresses(object: &mut api::Node, kind: &str, addresses: Vec<String>) {
    let addresses = addresses.into_iter().map(|address| api::NodeAddress { kind: kind.into(), address });
    object.status.addresses.extend(addresses);
}

/// `serviceCIDR 10.96.0.0/12` or `serviceCIDR more 10.112.0.0/16`.
pub(in crate::world) fn service_cidr(world: &mut World, tokens: &mut Tokens<'_>) -> Result<(), String> {
    let first = tokens.value("a service CIDR")?;
    let is_name = first.split(',').all(|text| parse_cidr(text).is_none()) && tokens.peek().is_some();
    let mut object = api::ServiceCidr::default();
    object.metadata.name = if is_name { first.into() } else { "kubernetes".into() };
    object.spec.cidrs =
        if is_name { tokens.list("a service CIDR")? } else { first.split(',').map(str::to_string).collect() };
    world.take(convert::service_cidr(&object));
    Ok(())
}

pub(in crate::world) fn service_cidr_gone(world: &mut World, tokens: &mut Tokens<'_>) {
    let name = tokens.next().unwrap_or("kubernetes");
    let metadata = api::ObjectMeta { name: name.into(), ..Default::default() };
    world.take(convert::service_cidr_deleted(&metadata));
}
