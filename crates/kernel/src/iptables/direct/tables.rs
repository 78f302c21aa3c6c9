//! The tables that iptables has, and their built-in chains.

/// A table of iptables.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BuiltInTable {
    pub name: &'static str,
    pub chains: &'static [BuiltInChain],
}

/// A chain that packets enter by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BuiltInChain {
    pub name: &'static str,
    /// The kind of chain in nf_tables.
    pub kind: &'static str,
    /// The number of its hook.
    pub hook: u32,
    pub priority: i32,
}

const fn chain(name: &'static str, kind: &'static str, hook: u32, priority: i32) -> BuiltInChain {
    BuiltInChain { name, kind, hook, priority }
}

/// Each with the chains, in the order in which iptables prints them.
const TABLES: [BuiltInTable; 5] = [
    BuiltInTable {
        name: "filter",
        chains: &[
            chain("INPUT", "filter", 1, 0),
            chain("FORWARD", "filter", 2, 0),
            chain("OUTPUT", "filter", 3, 0),
        ],
    },
    BuiltInTable {
        name: "nat",
        chains: &[
            chain("PREROUTING", "nat", 0, -100),
            chain("INPUT", "nat", 1, 100),
            chain("OUTPUT", "nat", 3, -100),
            chain("POSTROUTING", "nat", 4, 100),
        ],
    },
    BuiltInTable {
        name: "mangle",
        chains: &[
            chain("PREROUTING", "filter", 0, -150),
            chain("INPUT", "filter", 1, -150),
            chain("FORWARD", "filter", 2, -150),
            // Of this kind, since a changed mark may change the route.
            chain("OUTPUT", "route", 3, -150),
            chain("POSTROUTING", "filter", 4, -150),
        ],
    },
    BuiltInTable {
        name: "raw",
        chains: &[chain("PREROUTING", "filter", 0, -300), chain("OUTPUT", "filter", 3, -300)],
    },
    BuiltInTable {
        name: "security",
        chains: &[
            chain("INPUT", "filter", 1, 150),
            chain("FORWARD", "filter", 2, 150),
            chain("OUTPUT", "filter", 3, 150),
        ],
    },
];

impl BuiltInTable {
    /// The table of a name.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        TABLES.iter().find(|table| table.name == name)
    }

    /// The built-in chain of a name.
    pub(super) fn chain(&self, name: &str) -> Option<&'static BuiltInChain> {
        self.chains.iter().find(|chain| chain.name == name)
    }
}
