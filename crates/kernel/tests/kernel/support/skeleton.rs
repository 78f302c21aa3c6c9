//! The rules of a whole proxy: every kind of set, chain and element that services are made of.

use ferrule_kernel::nft::{
    Chain, ChainKind, Comparison, Element, Expression, Family, FibAddress, Field, Hook, HookPoint, MetaKey,
    Rule, Set, SetData, Transaction, UpdateOperation, Value, Verdict,
};

use super::rules::{base_chain, chain, goto, name, steps};

/// Sets, chains and elements of one family's table.
pub struct Skeleton {
    pub sets: Vec<Set>,
    pub chains: Vec<Chain>,
    pub elements: Vec<Element>,
}

impl Skeleton {
    pub fn new(family: Family) -> Self {
        Self { sets: sets(family), chains: chains(family), elements: elements(family) }
    }

    pub fn transaction(&self) -> Transaction {
        let mut transaction = Transaction::new();
        transaction.add_table();
        for set in &self.sets {
            transaction.add_set(set.clone());
        }
        transaction.add_counter(name("c1"));
        for chain in &self.chains {
            transaction.add_chain(chain.clone());
        }
        transaction.add_elements(self.elements.iter().cloned());
        transaction
    }
}

fn sets(family: Family) -> Vec<Set> {
    use Field::{Port, Priority, Protocol, Slot};
    let address = address(family);
    let endpoint = Some(SetData::Fields(vec![address, Port]));
    let id = Some(SetData::Fields(vec![Priority]));
    let k = vec![address, Protocol, Port];
    let p = vec![Protocol, Port];
    let mut affinity = match family {
        Family::Ip => set("affinity", &[address, Priority], id.clone()),
        Family::Ip6 => set("affinity", &[Slot, Slot, Priority], id.clone()),
    };
    (affinity.dynamic, affinity.size) = (true, Some(1_048_576));
    let mut cluster_ips = set("cluster-ips", &[address], None);
    cluster_ips.comment = Some("Active ClusterIPs".to_owned());
    let mut endpoints = set("endpoints", &[&k[..], &[Slot]].concat(), endpoint.clone());
    endpoints.comment = Some("frontend and slot to endpoint".to_owned());
    vec![
        cluster_ips,
        set("nodeport-ips", &[address], None),
        set("hairpin-connections", &[address, address, Protocol, Port], None),
        set("services", &k, Some(SetData::Verdict)),
        set("nodeports", &p, Some(SetData::Verdict)),
        endpoints,
        set("nodeport-endpoints", &[&p[..], &[Slot]].concat(), endpoint.clone()),
        set("unserved-services", &k, None),
        set("unserved-nodeports", &p, None),
        set("firewalled", &k, None),
        set("source-ranges-24", &[&k[..], &[address]].concat(), None),
        set("sticky-pools", &k, id.clone()),
        set("sticky-nodeport-pools", &p, id.clone()),
        set("sticky-slots", &[Priority, Slot], id),
        set("sticky-endpoints", &[Protocol, Priority], endpoint),
        affinity,
    ]
}

fn set(text: &str, key: &[Field], data: Option<SetData>) -> Set {
    Set {
        name: name(text),
        key: key.to_vec(),
        data,
        dynamic: false,
        counted: false,
        size: None,
        comment: None,
    }
}

fn chains(family: Family) -> Vec<Chain> {
    let mut all = base_chains(family);
    all.extend(check_chains(family));
    all.extend(nat_chains(family));
    all.push(sticky_chain(family));
    all
}

fn base_chains(family: Family) -> Vec<Chain> {
    use ChainKind::{Filter, Nat};
    use HookPoint::{Forward, Input, Output, Postrouting, Prerouting};
    let jump = |to: &str| steps(family).then(Verdict::Jump(name(to)));
    let new = |to: &str| {
        let state = Expression::ConnectionState { to: 1 };
        steps(family).connection(state, 8).then(Verdict::Jump(name(to)))
    };
    let hook = |kind, point, priority| Hook { kind, point, priority };
    let firewall = || vec![new("firewall-check")];
    let checks = || vec![new("service-endpoints-check"), new("cluster-ips-check")];
    let input = vec![new("nodeport-endpoints-check"), new("service-endpoints-check")];
    vec![
        base_chain("filter-prerouting-pre-dnat", hook(Filter, Prerouting, -110), firewall()),
        base_chain("filter-output-pre-dnat", hook(Filter, Output, -110), firewall()),
        base_chain("filter-input", hook(Filter, Input, 0), input),
        base_chain("filter-forward", hook(Filter, Forward, 0), checks()),
        base_chain("filter-output", hook(Filter, Output, 0), checks()),
        base_chain("nat-prerouting", hook(Nat, Prerouting, -100), vec![jump("services")]),
        base_chain("nat-output", hook(Nat, Output, -100), vec![jump("services")]),
        base_chain("nat-postrouting", hook(Nat, Postrouting, 100), vec![jump("masquerading")]),
    ]
}

fn check_chains(family: Family) -> Vec<Chain> {
    let s = || steps(family);
    let (mask, network): (&[u8], &[u8]) = match family {
        Family::Ip => (&[255, 240, 0, 0], &[10, 96, 0, 0]),
        Family::Ip6 => (&SERVICE_MASK, &SERVICE_NETWORK),
    };
    let in_service_range = s().daddr().masked(mask).compare(Comparison::Equal, network);
    let mut unused = in_service_range.then(Verdict::Drop);
    unused.comment = Some("Drop traffic to unallocated ClusterIPs".to_owned());
    let rejected = |set: &str| s().k().within(set).step(Expression::Reject).rule();
    let source = s().k().saddr();
    let source = match family {
        Family::Ip => source.masked(&[255, 255, 255, 0]),
        Family::Ip6 => source.masked(&SOURCE_MASK),
    };
    let nodeports = s().daddr().within("nodeport-ips").p().within("unserved-nodeports");
    let clusters = s().daddr().within("cluster-ips").step(Expression::Reject).rule();
    vec![
        chain("firewall-check", vec![s().k().within("firewalled").then(goto("source-ranges"))]),
        chain(
            "source-ranges",
            vec![source.within("source-ranges-24").then(Verdict::Return), s().then(Verdict::Drop)],
        ),
        chain("service-endpoints-check", vec![rejected("unserved-services")]),
        chain("nodeport-endpoints-check", vec![nodeports.step(Expression::Reject).rule()]),
        chain("cluster-ips-check", vec![clusters, unused]),
    ]
}

fn nat_chains(family: Family) -> Vec<Chain> {
    let s = || steps(family);
    let pick = |modulus| s().k().random(modulus).dnat_by("endpoints").rule();
    let host = s().address_type_is_local(FibAddress::Source).mark().then(goto("pool-3"));
    let mut cluster =
        chain("cluster-3", vec![masquerade_outsiders(family), interface("cni0"), interface("veth*")]);
    cluster.rules.extend([pick(3), pick(1)]);
    cluster.comment = Some("ClusterIPs with three endpoints".to_owned());
    let nodeport = s().p().random(3).dnat_by("nodeport-endpoints").rule();
    vec![
        chain("services", service_rules(family)),
        chain("cluster-retry", vec![pick(1), retry_sticky(family)]),
        chain("masquerading", masquerading(family)),
        chain("pool-3", vec![pick(3), pick(1)]),
        cluster,
        chain("external-local-3-2", vec![host, s().then(goto("pool-3"))]),
        chain("nodeport-3", vec![s().mark().rule(), nodeport]),
        chain("counted", vec![s().step(Expression::Counter(name("c1"))).rule()]),
    ]
}

fn service_rules(family: Family) -> Vec<Rule> {
    let s = || steps(family);
    let local = s().address_type_is_local(FibAddress::Destination);
    let local = match family {
        // `ip daddr != 127.0.0.0/8` is a comparison of one byte.
        Family::Ip => local.step(first_bytes(16, 1)).compare(Comparison::NotEqual, &[127]),
        Family::Ip6 => local.daddr().compare(Comparison::NotEqual, &std::net::Ipv6Addr::LOCALHOST.octets()),
    };
    vec![
        s().k().found_in("services", 0).rule(),
        local.p().found_in("nodeports", 0).rule(),
        s().daddr().within("nodeport-ips").p().found_in("nodeports", 0).rule(),
        s().daddr().within("cluster-ips").then(goto("cluster-retry")),
    ]
}

fn retry_sticky(family: Family) -> Rule {
    let pool = steps(family).k().found_in("sticky-pools", 1).set_meta(MetaKey::Priority);
    let slot = pool.meta(MetaKey::Priority).random(1).found_in("sticky-slots", 1).set_meta(MetaKey::Priority);
    slot.protocol().meta(MetaKey::Priority).dnat_by("sticky-endpoints").rule()
}

fn masquerading(family: Family) -> Vec<Rule> {
    let s = || steps(family);
    let id = s().meta(MetaKey::Priority).bits(0xf000_0000_u32.to_ne_bytes(), [0; 4]);
    let id = id.compare(Comparison::Equal, &0x7000_0000_u32.to_ne_bytes());
    let id = id.step(Expression::Load { value: (&[0; 4][..]).into(), to: 1 });
    let mark = 0x4000_u32.to_ne_bytes();
    let marked = s().meta(MetaKey::Mark).bits(mark, [0; 4]).compare(Comparison::NotEqual, &[0; 4]);
    let marked = marked.meta(MetaKey::Mark).bits([0xff; 4], mark).set_meta(MetaKey::Mark);
    let hairpin = s().connection(Expression::ConnectionStatus { to: 1 }, 0x20);
    let hairpin = hairpin.saddr().daddr().p().within("hairpin-connections");
    vec![
        id.set_meta(MetaKey::Priority).rule(),
        marked.step(Expression::Masquerade).rule(),
        hairpin.step(Expression::Masquerade).rule(),
    ]
}

fn sticky_chain(family: Family) -> Chain {
    let s = || steps(family);
    let known = s().client(15).meta(MetaKey::Priority).found_in("affinity", 1).set_meta(MetaKey::Priority);
    let known = known.affinity(UpdateOperation::Refresh, Some(10_800_000));
    let pool = 0xffff_f000_u32.to_ne_bytes();
    let pick = |modulus| {
        let slot = s().meta(MetaKey::Priority).masked(&pool).random(modulus);
        slot.found_in("sticky-slots", 1).set_meta(MetaKey::Priority)
    };
    let forward = |steps: super::rules::Steps| {
        steps.protocol().meta(MetaKey::Priority).dnat_by("sticky-endpoints").rule()
    };
    let rules = vec![
        forward(known),
        s().affinity(UpdateOperation::Delete, None).rule(),
        forward(pick(3).affinity(UpdateOperation::Refresh, Some(10_800_000))),
        forward(pick(3)),
        forward(pick(1)),
    ];
    chain("sticky-3-10800s", rules)
}

fn masquerade_outsiders(family: Family) -> Rule {
    // Both ranges end at a byte: a comparison of fewer bytes, as `nft` has it.
    let (offset, network): (u32, &[u8]) = match family {
        Family::Ip => (12, &[10, 244]),
        Family::Ip6 => (8, &[0xfd, 0x10, 0, 0, 0, 0, 0, 0]),
    };
    let length = u32::try_from(network.len()).unwrap();
    let outside = steps(family).step(first_bytes(offset, length)).compare(Comparison::NotEqual, network);
    let mut rule = outside.mark().rule();
    rule.comment = Some("masquerade traffic from outside".to_owned());
    rule
}

/// A name is compared in full, a prefix of one only so far.
fn interface(pattern: &str) -> Rule {
    let mut bytes = pattern.trim_end_matches('*').as_bytes().to_vec();
    if !pattern.ends_with('*') {
        bytes.resize(16, 0);
    }
    let name = steps(Family::Ip).meta(MetaKey::InputInterfaceName);
    name.compare(Comparison::NotEqual, &bytes).mark().rule()
}

fn first_bytes(offset: u32, length: u32) -> Expression {
    Expression::Payload { base: ferrule_kernel::nft::PayloadBase::Network, offset, length, to: 1 }
}

const SERVICE_NETWORK: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const SERVICE_MASK: [u8; 16] = [255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 240, 0, 0];
const SOURCE_MASK: [u8; 16] = [255, 255, 255, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
const POOL: u32 = 0x7000_1000;

fn elements(family: Family) -> Vec<Element> {
    let (vip, endpoint) = (address_bytes(family, 0x60, 10), address_bytes(family, 0xf4, 5));
    let tcp = [6, 0, 0, 0];
    let port = |port: u16| [port.to_be_bytes(), [0; 2]].concat();
    let k = [&vip[..], &tcp, &port(80)].concat();
    let p = [&tcp[..], &port(30080)].concat();
    let destination = [&endpoint[..], &port(8080)].concat();
    let data = |bytes: &[u8]| Some(Value::Data(bytes.into()));
    let verdict = |verdict| Some(Value::Verdict(verdict));
    let mut all = vec![
        element("cluster-ips", &vip, None),
        element("nodeport-ips", &address_bytes(family, 1, 1), None),
        element("hairpin-connections", &[&endpoint[..], &endpoint, &tcp, &port(8080)].concat(), None),
        element("services", &k, verdict(goto("cluster-3"))),
        element("services", &[&vip[..], &tcp, &port(81)].concat(), verdict(Verdict::Drop)),
        element("nodeports", &p, verdict(goto("nodeport-3"))),
    ];
    for slot in 0_u32..3 {
        all.push(element("endpoints", &[&k[..], &slot.to_ne_bytes()].concat(), data(&destination)));
        all.push(element("nodeport-endpoints", &[&p[..], &slot.to_ne_bytes()].concat(), data(&destination)));
        let id = (POOL + 1 + slot).to_ne_bytes();
        all.push(element("sticky-slots", &[POOL.to_ne_bytes(), slot.to_ne_bytes()].concat(), data(&id)));
        all.push(element("sticky-endpoints", &[tcp, id].concat(), data(&destination)));
    }
    all.push(element("sticky-pools", &k, data(&POOL.to_ne_bytes())));
    all.push(element("source-ranges-24", &[&k[..], &address_bytes(family, 2, 0)].concat(), None));
    all
}

fn element(set: &str, key: &[u8], value: Option<Value>) -> Element {
    Element { set: name(set), key: key.into(), value }
}

fn address_bytes(family: Family, second: u8, last: u8) -> Vec<u8> {
    let mut bytes = match family {
        Family::Ip => vec![10, second, 0, 0],
        Family::Ip6 => [&[0xfd, second][..], &[0; 14]].concat(),
    };
    *bytes.last_mut().unwrap() = last;
    bytes
}

fn address(family: Family) -> Field {
    match family {
        Family::Ip => Field::Ipv4Addr,
        Family::Ip6 => Field::Ipv6Addr,
    }
}
