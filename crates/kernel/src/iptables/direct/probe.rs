//! Whether this kernel takes every rule that we would write, so that the caller can run the programs instead.

use super::NetlinkTables;
use crate::iptables::{IptablesError, RestoreText};
use crate::nft::Family;
use crate::port::XTables as _;

/// Every kind of expression, match and target of iptables mode, in chains that are never made. Packet counters are left out:
/// they are optional, and must exist first.
macro_rules! rules {
    ($blocks:literal, $endpoint:literal) => {
        concat!(
            "*filter\n:FERRULE-PROBE - [0:0]\n",
            "-I INPUT -m conntrack --ctstate NEW -m comment --comment probe -j FERRULE-PROBE\n",
            "-A FERRULE-PROBE ",
            $blocks,
            " -i lo ! -o eth+ -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP\n",
            "-A FERRULE-PROBE -p tcp -m tcp --sport 1:2 --dport 80 -m addrtype --dst-type LOCAL -j REJECT\n",
            "-A FERRULE-PROBE -p udp -m udp --dport 80 -m mark --mark 0x4000/0x4000 -j ACCEPT\nCOMMIT\n",
            "*nat\n:FERRULE-PROBE - [0:0]\n:FERRULE-PROBE-SNAT - [0:0]\n-I OUTPUT -j FERRULE-PROBE\n",
            "-A FERRULE-PROBE -m mark ! --mark 0x4000/0x4000 -j RETURN\n",
            "-A FERRULE-PROBE -m statistic --mode random --probability 0.5 -j MARK --xor-mark 0x4000\n",
            "-A FERRULE-PROBE -m recent --name FERRULE-PROBE --rcheck --seconds 1 --reap -j RETURN\n",
            "-A FERRULE-PROBE -m recent --name FERRULE-PROBE --set -m tcp -p tcp -j DNAT --to-destination ",
            $endpoint,
            "\n-A FERRULE-PROBE -p udp -m udp -j DNAT --to-destination ",
            $endpoint,
            "\n-I POSTROUTING -j FERRULE-PROBE-SNAT\n-A FERRULE-PROBE-SNAT -j MASQUERADE --random-fully\nCOMMIT\n",
            "*mangle\n:FERRULE-PROBE - [0:0]\n-I PREROUTING -j FERRULE-PROBE\nCOMMIT\n",
        )
    };
}

impl NetlinkTables {
    /// Checks that the kernel takes every kind of rule that iptables mode writes. Changes nothing, not even the generation.
    ///
    /// SCTP and packet counters are not checked: their rules are rejected one by one where the kernel lacks them.
    pub fn probe(&mut self) -> Result<(), IptablesError> {
        let text = match self.family() {
            Family::Ip => rules!("! -s 127.0.0.0/8 -d 127.0.0.0/9", "192.0.2.1:80"),
            Family::Ip6 => rules!("! -s ::1 -d fd00::/9", "[2001:db8::1]:80"),
        };
        self.test(&RestoreText::literal(text))
    }
}
