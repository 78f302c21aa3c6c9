//! A rule for the time in which connections of ipvs mode drain while another mode serves.
//!
//! As long as a service address is on `kube-ipvs0`, it is the source of what this host itself sends there. No endpoint elsewhere can
//! answer to it. ipvs mode masquerades such packets; other modes do not know them.

use ferrule_kernel::iptables::{RestoreText, RuleText, Saved};
use ferrule_kernel::nft::Family;

/// Its chain, in table nat.
pub(super) const DRAIN: &str = "FERRULE-IPVS-DRAIN";
const JUMP: &str = r#"-m comment --comment "connections of ipvs mode drain" -j FERRULE-IPVS-DRAIN"#;

/// What adds it, where the rules of ipvs mode are and it is not.
pub(super) fn drain_rule(saved: &Saved, family: Family) -> Option<RestoreText> {
    let has = |table, chain| saved.table(table).is_some_and(|table| table.has_chain(chain));
    if !has("filter", "KUBE-IPVS-FILTER") || has("nat", DRAIN) {
        return None;
    }
    let rule = match family {
        Family::Ip6 => "-m set --match-set KUBE-6-IPVS-IPS src ! -o lo -j MASQUERADE",
        Family::Ip => "-m set --match-set KUBE-IPVS-IPS src ! -o lo -j MASQUERADE",
    };
    let mut text = RestoreText::default();
    text.table("nat", |lines| {
        lines.chain(DRAIN);
        lines.append(DRAIN, &RuleText::literal(rule));
        lines.insert("POSTROUTING", &RuleText::literal(JUMP));
    });
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_added_once_and_only_where_ipvs_mode_was() {
        let ipvs = "*filter\n:KUBE-IPVS-FILTER - [0:0]\nCOMMIT\n*nat\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n";
        let text = drain_rule(&Saved::parse(ipvs), Family::Ip).expect("a rule");
        let expected = format!(
            "*nat\n:{DRAIN} - [0:0]\n-A {DRAIN} -m set --match-set KUBE-IPVS-IPS src ! -o lo -j MASQUERADE\n\
             -I POSTROUTING {JUMP}\nCOMMIT\n"
        );
        assert_eq!(text.as_str(), expected);
        let there = format!("{ipvs}*nat\n:{DRAIN} - [0:0]\nCOMMIT\n");
        assert!(
            drain_rule(
                &Saved::parse(&there.replacen("*nat\n:POSTROUTING ACCEPT [0:0]\nCOMMIT\n", "", 1)),
                Family::Ip
            )
            .is_none()
        );
        assert!(drain_rule(&Saved::parse("*filter\n:KUBE-FORWARD - [0:0]\nCOMMIT\n"), Family::Ip).is_none());
    }
}
