//! What becomes of a packet: the oracle's outcome with the reasons of the plan.

use ferrule_model::{Conditions, IpFamily, ServicePortName};
use ferrule_plan::{
    DecidedBy, Delivery, EndpointReasons, Excluded, Explainer, FrontendKey, FrontendReasons, Holder,
    Membership, Outcome, Packet, PacketReasons, PoolScope, PortReasons, ProxyMode, ShapeReason, Trace,
    Verdict,
};

use super::packet::{Assumed, ExplainQuestion};
use super::{
    Affinity, AskedPacket, Delivered, Explanation, KernelDetail, KernelVerdict, PacketVerdict, PoolMember,
    QuestionError,
};

/// What was found about a packet, before the kernel is read.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The answer.
    pub answer: Explanation,
    /// The frontend that the packet meets, to compare with the kernel.
    pub frontend: Option<FrontendKey>,
    /// Whether a process of this node sends it, so that it does not come in anywhere.
    pub is_sent_by_node: bool,
    /// The family of the packet.
    pub family: IpFamily,
}

/// Answers from a plan alone.
pub fn answer(
    explainer: &Explainer<'_>,
    mode: ProxyMode,
    question: &ExplainQuestion,
) -> Result<Explained, QuestionError> {
    let Assumed { packet, assumptions } = question.packet(explainer)?;
    let family = IpFamily::of(packet.to);
    let found = explainer.packet(&packet);
    let mut answer = blank(explainer, mode, &packet);
    let frontend = match &found {
        None => {
            answer.rule = format!("this node does not serve {family}");
            None
        }
        Some(reasons) => {
            describe(explainer, &mut answer, reasons);
            reasons.trace.decided_by.frontend(&packet)
        }
    };
    answer.frontend = frontend.map(|key| key.to_string());
    answer.reasons.extend(assumptions);
    let is_own = explainer.plan.families.get(family).is_some_and(|plan| plan.node.has_address(packet.from));
    let is_sent_by_node = packet.interface.is_none() && is_own;
    Ok(Explained { answer, frontend, is_sent_by_node, family })
}

fn blank(explainer: &Explainer<'_>, mode: ProxyMode, packet: &Packet) -> Explanation {
    let Packet { from, interface, to, port } = packet;
    Explanation {
        node: explainer.view.name.to_string(),
        mode: mode.name().to_owned(),
        packet: AskedPacket {
            from: from.to_string(),
            interface: interface.clone(),
            to: to.to_string(),
            protocol: port.map(|(protocol, _)| protocol.to_string()),
            port: port.map(|(_, port)| port),
        },
        verdict: PacketVerdict::None,
        service: None,
        frontend: None,
        endpoints: Vec::new(),
        masquerade: false,
        deliveries: Vec::new(),
        affinity: None,
        rule: String::new(),
        reasons: Vec::new(),
        also_claimed_by: Vec::new(),
        pool: Vec::new(),
        pending_changes: false,
        kernel: KernelVerdict::Unknown,
        kernel_detail: KernelDetail::default(),
    }
}

fn describe(explainer: &Explainer<'_>, answer: &mut Explanation, reasons: &PacketReasons) {
    let Trace { outcome, decided_by } = &reasons.trace;
    answer.rule = decided_by.to_string();
    set_outcome(answer, outcome);
    let owner = owner(decided_by);
    answer.service = owner.map(ToString::to_string);
    if let Some(frontend) = &reasons.frontend {
        answer.reasons.push(format!("{}: {}", frontend.key, frontend.why));
        answer.reasons.push(frontend.holder.to_string());
        answer.also_claimed_by = others(&frontend.holder);
    }
    answer.reasons.extend(masquerade_reason(answer, decided_by));
    if let Some(port) = owner.and_then(|owner| port_reasons(explainer, answer, owner)) {
        add_pool(answer, &port, scope(decided_by, reasons.frontend.as_ref()));
    }
}

fn set_outcome(answer: &mut Explanation, outcome: &Outcome) {
    answer.verdict = match outcome {
        Outcome::Forwarded { .. } => PacketVerdict::Forward,
        Outcome::Dropped => PacketVerdict::Drop,
        Outcome::Rejected => PacketVerdict::Reject,
        Outcome::Untouched => PacketVerdict::None,
    };
    let Outcome::Forwarded { to, sticky } = outcome else { return };
    let delivered = |Delivery { endpoint, masqueraded }: &Delivery| Delivered {
        endpoint: endpoint.to_string(),
        masquerade: *masqueraded,
    };
    answer.deliveries = to.iter().map(delivered).collect();
    answer.endpoints = answer.deliveries.iter().map(|delivered| delivered.endpoint.clone()).collect();
    answer.masquerade = !to.is_empty() && to.iter().all(|delivery| delivery.masqueraded);
    answer.affinity = sticky.map(|seconds| Affinity { seconds });
}

/// The Service port that decides. One that only has the address of an unused port does not.
fn owner(decided_by: &DecidedBy) -> Option<&ServicePortName> {
    match decided_by {
        DecidedBy::Rule { owner, .. } | DecidedBy::NodePortNotServedHere { owner, .. } => Some(owner),
        DecidedBy::UnusedPort { .. } | DecidedBy::UnallocatedAddress(_) | DecidedBy::NoFrontend => None,
    }
}

fn others(holder: &Holder) -> Vec<String> {
    match holder {
        Holder::Won { over } => over.iter().map(ToString::to_string).collect(),
        Holder::OnlyClaimant | Holder::Lost { .. } => Vec::new(),
    }
}

fn masquerade_reason(answer: &Explanation, decided_by: &DecidedBy) -> Option<String> {
    let DecidedBy::Rule { verdict: Verdict::Forward { masquerade, .. }, source, .. } = decided_by else {
        return None;
    };
    let is_hairpin = |delivered: &&Delivered| delivered.masquerade;
    Some(if *masquerade {
        format!("masqueraded: the rule for {source} says so, so that answers come back through this node")
    } else if let Some(hairpin) = answer.deliveries.iter().find(is_hairpin) {
        format!("masqueraded if it goes to {}, which is the sender itself", hairpin.endpoint)
    } else {
        format!("not masqueraded: the endpoint sees {}", answer.packet.from)
    })
}

fn port_reasons(
    explainer: &Explainer<'_>,
    answer: &mut Explanation,
    owner: &ServicePortName,
) -> Option<PortReasons> {
    let service = explainer.service(&owner.service)?;
    answer.reasons.extend(service.unusable.iter().map(|diagnostic| format!("not usable: {diagnostic}")));
    let to = answer.packet.to.parse().ok().map(IpFamily::of)?;
    let family = service.families.into_iter().find(|reasons| reasons.family == to)?;
    family.ports.into_iter().find(|port| port.owner == *owner)
}

/// The pool that decides, or that would have if there were an endpoint in it.
fn scope(decided_by: &DecidedBy, frontend: Option<&FrontendReasons>) -> PoolScope {
    if let DecidedBy::Rule { verdict: Verdict::Forward { pool, .. }, .. } = decided_by {
        return *pool;
    }
    match frontend.map(|frontend| frontend.why) {
        Some(ShapeReason::NoLocalEndpoint(_)) => PoolScope::Local,
        _ => PoolScope::Cluster,
    }
}

fn add_pool(answer: &mut Explanation, port: &PortReasons, scope: PoolScope) {
    if scope == PoolScope::Cluster {
        answer.reasons.extend(port.hints.map(|hints| hints.to_string()));
    }
    if port.source_ranges_ignored {
        answer.reasons.push("source ranges are ignored: there is no endpoint".into());
    }
    answer.pool = port.endpoints.iter().map(|endpoint| member(endpoint, scope)).collect();
}

fn member(endpoint: &EndpointReasons, scope: PoolScope) -> PoolMember {
    let (membership, conditions) = (endpoint.membership(scope), endpoint.conditions);
    // That the pool is not part of the plan says less than what is wrong with the endpoint.
    let is_unplanned = matches!(membership, Membership::Out(Excluded::PoolNotNeeded | Excluded::PoolUnused));
    let is_down = !conditions.ready && !conditions.is_serving_and_terminating();
    let membership = if is_unplanned && is_down { Membership::Out(Excluded::NotReady) } else { membership };
    PoolMember {
        endpoint: endpoint.port.map_or_else(
            || endpoint.ip.to_string(),
            |port| std::net::SocketAddr::new(endpoint.ip, port).to_string(),
        ),
        used: membership.is_in(),
        why: membership.to_string(),
        local: endpoint.is_local,
        conditions: listed(conditions),
    }
}

pub(super) fn listed(conditions: Conditions) -> String {
    let Conditions { ready, serving, terminating } = conditions;
    let named = [(ready, "ready"), (serving && !ready, "serving"), (terminating, "terminating")];
    let named: Vec<&str> = named.into_iter().filter_map(|(holds, name)| holds.then_some(name)).collect();
    if named.is_empty() { "not ready".to_owned() } else { named.join(", ") }
}
