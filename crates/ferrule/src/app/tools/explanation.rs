//! An explanation as text: the verdict first, then why, then what the kernel holds.

use std::fmt::Write as _;

use super::table::{Color, Style, Table, safe};
use crate::questions::{AskedPacket, Explanation, KernelVerdict, PacketVerdict};

/// Lines of what the kernel holds, unless all are wanted.
const MAX_HELD: usize = 12;

pub(super) fn text(answer: &Explanation, style: Style) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = writeln!(out, "{}  {}", verdict(answer, style), safe(&packet(&answer.packet)));
    facts(&mut out, answer);
    for (at, reason) in answer.reasons.iter().enumerate() {
        let _ = writeln!(out, "{:<11} {}", if at == 0 { "why" } else { "" }, safe(reason));
    }
    if !answer.pool.is_empty() {
        let _ = writeln!(out, "\n{}", pool(answer, style).trim_end());
    }
    kernel(&mut out, answer, style);
    if answer.pending_changes {
        out.push_str(
            "\nThe cluster has changed since this was planned; the next sync may change the answer.\n",
        );
    }
    out
}

fn verdict(answer: &Explanation, style: Style) -> String {
    match answer.verdict {
        PacketVerdict::Forward => style.colored(Color::Green, "forward"),
        PacketVerdict::Reject => style.colored(Color::Red, "reject"),
        PacketVerdict::Drop => style.colored(Color::Red, "drop"),
        PacketVerdict::None => style.colored(Color::Yellow, "none"),
    }
}

fn packet(packet: &AskedPacket) -> String {
    let AskedPacket { from, interface, to, protocol, port } = packet;
    let via = interface.as_ref().map(|name| format!(" via {name}")).unwrap_or_default();
    match (protocol, port) {
        (Some(protocol), Some(port)) if to.contains(':') => {
            format!("{from}{via} -> [{to}]:{port}/{protocol}")
        }
        (Some(protocol), Some(port)) => format!("{from}{via} -> {to}:{port}/{protocol}"),
        _ => format!("{from}{via} -> {to}, without a port"),
    }
}

fn facts(out: &mut String, answer: &Explanation) {
    let endpoints: Vec<String> = answer
        .deliveries
        .iter()
        .map(|delivered| {
            format!("{}{}", delivered.endpoint, if delivered.masquerade { " (masqueraded)" } else { "" })
        })
        .collect();
    let affinity =
        answer.affinity.map(|affinity| format!("a client keeps its endpoint for {}s", affinity.seconds));
    let claimed = Some(answer.also_claimed_by.join(", ")).filter(|names| !names.is_empty());
    let facts = [
        ("node", Some(format!("{}, {} mode", answer.node, answer.mode))),
        ("service", answer.service.clone()),
        ("frontend", answer.frontend.clone()),
        ("claimed by", claimed.map(|names| format!("{names}, too"))),
        ("rule", Some(answer.rule.clone())),
        ("goes to", Some(endpoints.join(", ")).filter(|text| !text.is_empty())),
        ("affinity", affinity),
    ];
    for (name, fact) in facts {
        if let Some(fact) = fact {
            let _ = writeln!(out, "{name:<11} {}", safe(&fact));
        }
    }
}

fn pool(answer: &Explanation, style: Style) -> String {
    let header: &[&str] = if style.is_wide {
        &["ENDPOINT", "USED", "NODE", "CONDITIONS", "WHY"]
    } else {
        &["ENDPOINT", "USED", "WHY"]
    };
    let mut table = Table::new(header);
    for member in &answer.pool {
        let used = if member.used { "yes" } else { "no" };
        let why = member.why.split_once(": ").map_or(member.why.as_str(), |(_, why)| why);
        if style.is_wide {
            let node = if member.local { "this" } else { "other" };
            table.row([&*member.endpoint, used, node, &*member.conditions, why]);
        } else {
            table.row([&*member.endpoint, used, why]);
        }
    }
    table.text("")
}

fn kernel(out: &mut String, answer: &Explanation, style: Style) {
    let (color, says) = match answer.kernel {
        KernelVerdict::Agrees => (Color::Green, "agrees: it holds what was planned"),
        KernelVerdict::Missing => (Color::Red, "missing: it does not hold all that was planned"),
        KernelVerdict::Differs => (Color::Red, "differs: it holds something else than was planned"),
        KernelVerdict::Unknown => (Color::Yellow, "unknown"),
    };
    let detail = &answer.kernel_detail;
    let problem = detail.problem.as_ref().map(|problem| format!(": {}", safe(problem))).unwrap_or_default();
    let _ = writeln!(out, "\n{:<11} {}{problem}", "kernel", style.colored(color, says));
    for line in &detail.differences {
        let _ = writeln!(out, "  {}", style.colored(Color::Red, line));
    }
    let shown = if style.is_wide { detail.holds.len() } else { MAX_HELD.min(detail.holds.len()) };
    for line in &detail.holds[..shown] {
        let _ = writeln!(out, "  {}", safe(line));
    }
    if shown < detail.holds.len() {
        let _ = writeln!(out, "  and {} more, all with -o wide", detail.holds.len() - shown);
    }
    if !detail.others.is_empty() {
        out.push_str("\nothers      rules of other programs on the way, which may stop the packet\n");
    }
    for line in &detail.others {
        let _ = writeln!(out, "  {}", style.colored(Color::Yellow, &safe(line)));
    }
}
