//! Every form of rule that kube-proxy's modes write with iptables, and what else [`XtRule`](ferrule_kernel::iptables::direct::XtRule)
//! can express.

use ferrule_kernel::accounting;
use ferrule_kernel::nft::Family;

use super::iptables_program::create_sets;

/// The tables that the rules are in, in the order of [`text`].
pub const TABLES: [&str; 3] = ["filter", "nat", "mangle"];

/// A rule of a table.
pub type Form = (&'static str, &'static str);

/// What the rules of [`forms`] refer to.
pub fn prepare() {
    create_sets(&[
        "KUBE-LOOP-BACK hash:ip,port,ip",
        "KUBE-CLUSTER-IP hash:ip,port",
        "KUBE-NODE-PORT-TCP bitmap:port range 0-65535",
        "KUBE-LOAD-BALANCER-SOURCE-CIDR hash:ip,port,net",
        "KUBE-IPVS-IPS hash:ip",
        "KUBE-6-CLUSTER-IP hash:ip,port family inet6",
        "KUBE-6-LOOP-BACK hash:ip,port,ip family inet6",
    ]);
    for counter in ["ct_state_invalid_dropped_pkts", "localhost_nps_accepted_pkts"] {
        accounting::ensure(counter).expect("the kernel has named counters");
    }
}

/// The rules of a family: iptables, ipvs and userspace mode, and what else can be expressed.
pub fn forms(family: Family) -> Vec<Form> {
    let own = match family {
        Family::Ip => include_str!("iptables_forms/ipv4.txt"),
        Family::Ip6 => include_str!("iptables_forms/ipv6.txt"),
    };
    let lines = own.lines().chain(include_str!("iptables_forms/both.txt").lines());
    lines
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(' ').unwrap_or((line, "")))
        .collect()
}

/// Rules that mean the same in our encoding and in that of iptables, but have more than one encoding.
///
/// iptables compares with the end of a negated range that begins at zero, where we compare with the rest of the ports, and it
/// leaves other bytes behind a mask that was given than behind the same one as a default. It does not find its own rule of the
/// first kind by its text either.
pub fn respelled(family: Family) -> Vec<Form> {
    let ports = [
        ("filter", "-p tcp -m tcp ! --dport :1024 -j ACCEPT"),
        ("filter", "-p udp -m udp ! --sport 1024: ! --dport :5 -j ACCEPT"),
    ];
    let mask = match family {
        Family::Ip => "-m recent --name masked --rcheck --mask 255.255.255.255",
        Family::Ip6 => "-m recent --name masked --rcheck --mask ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
    };
    ports.into_iter().chain([("filter", mask)]).collect()
}

/// All of them.
pub fn all_forms(family: Family) -> Vec<Form> {
    [forms(family), respelled(family)].concat()
}

/// A text that declares a chain `FORMS` in each table and appends all rules.
pub fn text(forms: &[Form]) -> String {
    let mut lines = Vec::new();
    for table in TABLES {
        lines.extend([format!("*{table}"), ":FORMS - [0:0]".to_owned(), ":KUBE-X - [0:0]".to_owned()]);
        let of_table = forms.iter().filter(|(of, _)| *of == table);
        lines.extend(of_table.map(|(_, rule)| format!("-A FORMS {rule}")));
        lines.push("COMMIT\n".to_owned());
    }
    lines.join("\n")
}
