//! The parts that rules are made of: "the service address", "one of N endpoints", "mark for masquerading".
//!
//! Each part is a few expressions. Registers and offsets are those `nft` itself would choose, so that it can list the
//! rules and load the listing again.

use std::net::IpAddr;

use ferrule_kernel::nft::{
    Comparison, Expression, Family, FibAddress, MetaKey, Name, PayloadBase, Register, Rule, UpdateOperation,
    Verdict,
};
use ipnet::IpNet;

use super::names::Table;

/// The kernel's `RTN_LOCAL`: an address of this host.
pub const LOCAL_ADDRESS: u32 = 2;
/// The kernel's bit for `ct state new`.
pub const STATE_NEW: u32 = 1 << 3;
/// The kernel's bit for `ct status dnat`.
pub const STATUS_DNAT: u32 = 1 << 5;
/// The bits of a pool id; the rest is the endpoint's serial.
pub const POOL_BITS: u32 = 0xffff_f000;

/// Builds the expressions of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExprBuilder {
    pub family: Family,
}

/// A rule without a comment.
pub fn rule(parts: impl IntoIterator<Item = Vec<Expression>>) -> Rule {
    Rule { expressions: parts.into_iter().flatten().collect(), comment: None }
}

pub fn goto(chain: &str) -> Vec<Expression> {
    vec![Expression::Verdict(Verdict::Goto(Name::new(chain)))]
}

pub fn jump(chain: &str) -> Vec<Expression> {
    vec![Expression::Verdict(Verdict::Jump(Name::new(chain)))]
}

pub fn drop_packet() -> Vec<Expression> {
    vec![Expression::Verdict(Verdict::Drop)]
}

pub fn return_packet() -> Vec<Expression> {
    vec![Expression::Verdict(Verdict::Return)]
}

pub fn reject() -> Vec<Expression> {
    vec![Expression::Reject]
}

/// `ct state new`
pub fn is_new() -> Vec<Expression> {
    let mut exprs = vec![Expression::ConnectionState { to: 1 }];
    exprs.extend(any_bit_of(1, STATE_NEW));
    exprs
}

/// `ct status dnat`
pub fn is_dnat() -> Vec<Expression> {
    let mut exprs = vec![Expression::ConnectionStatus { to: 1 }];
    exprs.extend(any_bit_of(1, STATUS_DNAT));
    exprs
}

/// `meta mark set meta mark | BIT`
pub fn mark(bit: u32) -> Vec<Expression> {
    change_mark(!bit, bit)
}

/// `meta mark & BIT != 0 meta mark set meta mark ^ BIT`
pub fn is_marked_and_unmark(bit: u32) -> Vec<Expression> {
    let mut exprs = vec![Expression::Meta { key: MetaKey::Mark, to: 1 }];
    exprs.extend(any_bit_of(1, bit));
    exprs.extend(change_mark(u32::MAX, bit));
    exprs
}

/// `iifname NAME`, or `iifname != NAME`
pub fn input_interface_is(name: &str, comparison: Comparison) -> Vec<Expression> {
    let mut value: Vec<u8> = name.bytes().take(15).collect();
    value.resize(16, 0);
    interface(value, comparison)
}

/// `iifname PREFIX*`, or `iifname != PREFIX*`
pub fn input_interface_starts_with(prefix: &str, comparison: Comparison) -> Vec<Expression> {
    interface(prefix.bytes().take(15).collect(), comparison)
}

fn interface(value: Vec<u8>, comparison: Comparison) -> Vec<Expression> {
    vec![
        Expression::Meta { key: MetaKey::InputInterfaceName, to: 1 },
        Expression::Compare { comparison, from: 1, value: value.into() },
    ]
}

/// Ids of ours are reset before a packet leaves: `meta priority & f000:0 == 7000:0 meta priority set 0:0`
pub fn reset_priority() -> Vec<Expression> {
    vec![
        Expression::Meta { key: MetaKey::Priority, to: 1 },
        masked(1, 0xf000_0000, 0),
        Expression::Compare { comparison: Comparison::Equal, from: 1, value: number(0x7000_0000) },
        Expression::Load { value: number(0).to_vec().into(), to: 1 },
        Expression::MetaSet { key: MetaKey::Priority, from: 1 },
    ]
}

/// `masquerade fully-random`
pub fn masquerade() -> Vec<Expression> {
    vec![Expression::Masquerade]
}

/// `meta priority set meta priority & ffff:f000 . numgen random mod N map @SLOTS`
pub fn pick_slot(size: u32, slots: &Name) -> Vec<Expression> {
    let mut exprs = vec![
        Expression::Meta { key: MetaKey::Priority, to: 1 },
        masked(1, POOL_BITS, 0),
        Expression::RandomNumber { modulus: size, to: 9 },
    ];
    exprs.extend(load_priority_from(slots));
    exprs
}

/// `fib saddr type local`, `fib daddr type local`
pub fn is_local_address(of: FibAddress) -> Vec<Expression> {
    let value = number(LOCAL_ADDRESS);
    vec![
        Expression::AddressType { of, to: 1 },
        Expression::Compare { comparison: Comparison::Equal, from: 1, value },
    ]
}

fn change_mark(mask: u32, xor: u32) -> Vec<Expression> {
    vec![
        Expression::Meta { key: MetaKey::Mark, to: 1 },
        masked(1, mask, xor),
        Expression::MetaSet { key: MetaKey::Mark, from: 1 },
    ]
}

fn any_bit_of(register: Register, bits: u32) -> [Expression; 2] {
    [
        masked(register, bits, 0),
        Expression::Compare { comparison: Comparison::NotEqual, from: register, value: number(0) },
    ]
}

fn masked(register: Register, mask: u32, xor: u32) -> Expression {
    Expression::Bitwise { from: register, to: register, mask: number(mask), xor: number(xor) }
}

/// A number as registers hold it: in the host's byte order.
fn number(value: u32) -> ferrule_kernel::nft::Bytes {
    value.to_ne_bytes().as_slice().into()
}

impl ExprBuilder {
    fn address_length(self) -> u32 {
        match self.family {
            Family::Ip => 4,
            Family::Ip6 => 16,
        }
    }

    fn source_offset(self) -> u32 {
        match self.family {
            Family::Ip => 12,
            Family::Ip6 => 8,
        }
    }

    fn destination_offset(self) -> u32 {
        match self.family {
            Family::Ip => 16,
            Family::Ip6 => 24,
        }
    }

    fn source(self, to: Register) -> Expression {
        network(self.source_offset(), self.address_length(), to)
    }

    fn destination(self, to: Register) -> Expression {
        network(self.destination_offset(), self.address_length(), to)
    }

    /// The registers of a key's fields: the first in register 1, the following behind it, each padded to 4 bytes.
    fn after_address(self, fields: u32) -> Register {
        let behind = match self.family {
            Family::Ip => 9,
            Family::Ip6 => 12,
        };
        nft_register(behind + fields)
    }

    /// Loads `ip daddr . meta l4proto . th dport`, or `meta l4proto . th dport`; returns the next free register.
    fn key(self, table: Table) -> (Vec<Expression>, Register) {
        match table {
            Table::Address => (
                vec![
                    self.destination(1),
                    Expression::Meta { key: MetaKey::L4Protocol, to: self.after_address(0) },
                    destination_port(self.after_address(1)),
                ],
                self.after_address(2),
            ),
            Table::NodePort => {
                (vec![Expression::Meta { key: MetaKey::L4Protocol, to: 1 }, destination_port(9)], 10)
            }
        }
    }

    /// `K @SET`
    pub fn is_in(self, table: Table, set: &Name) -> Vec<Expression> {
        let (mut exprs, _) = self.key(table);
        exprs.push(Expression::Lookup { set: set.clone(), from: 1, to: None });
        exprs
    }

    /// `meta priority set K map @MAP meta priority vmap @DISPATCH`
    pub fn dispatch(self, table: Table, map: &Name, verdicts: &Name) -> Vec<Expression> {
        let mut exprs = self.load_id(table, map);
        exprs.push(Expression::Meta { key: MetaKey::Priority, to: 1 });
        exprs.push(Expression::Lookup { set: verdicts.clone(), from: 1, to: Some(0) });
        exprs
    }

    /// `ip daddr @SET`
    pub fn destination_is_in(self, set: &Name) -> Vec<Expression> {
        vec![self.destination(1), Expression::Lookup { set: set.clone(), from: 1, to: None }]
    }

    /// `K . ip saddr & MASK @SET`
    pub fn key_and_source_are_in(self, prefix_length: u8, set: &Name) -> Vec<Expression> {
        let (mut exprs, source) = self.key(Table::Address);
        exprs.push(self.source(source));
        let mask = prefix_mask(prefix_length, self.address_length());
        if mask.iter().any(|byte| *byte != 0xff) {
            let xor = vec![0; mask.len()];
            exprs.push(Expression::Bitwise { from: source, to: source, mask: mask.into(), xor: xor.into() });
        }
        exprs.push(Expression::Lookup { set: set.clone(), from: 1, to: None });
        exprs
    }

    /// `dnat ip to K . numgen random mod N map @MAP`
    pub fn pick(self, table: Table, size: u32, map: &Name) -> Vec<Expression> {
        let (mut exprs, slot) = self.key(table);
        exprs.push(Expression::RandomNumber { modulus: size, to: slot });
        exprs.extend(self.dnat_through(map));
        exprs
    }

    /// Looks up the key in register 1 and rewrites the destination to the value.
    fn dnat_through(self, map: &Name) -> [Expression; 2] {
        [
            Expression::Lookup { set: map.clone(), from: 1, to: Some(1) },
            Expression::DestinationNat { address: 1, port: self.after_address(0) },
        ]
    }

    /// `meta priority set K map @MAP`
    pub fn load_id(self, table: Table, map: &Name) -> Vec<Expression> {
        let (mut exprs, _) = self.key(table);
        exprs.extend(load_priority_from(map));
        exprs
    }

    /// `meta priority set CLIENT . meta priority map @AFFINITY`
    pub fn load_remembered_endpoint(self, affinity: &Name) -> Vec<Expression> {
        let (mut exprs, pool) = self.client();
        exprs.push(Expression::Meta { key: MetaKey::Priority, to: pool });
        exprs.extend(load_priority_from(affinity));
        exprs
    }

    /// `update @AFFINITY { CLIENT . meta priority & ffff:f000 timeout T : meta priority }`, or `delete`.
    pub fn update_affinity(
        self,
        affinity: &Name,
        operation: UpdateOperation,
        seconds: Option<u32>,
    ) -> Vec<Expression> {
        let (mut exprs, pool) = self.client();
        exprs.push(Expression::Meta { key: MetaKey::Priority, to: pool });
        exprs.push(masked(pool, POOL_BITS, 0));
        exprs.push(Expression::Meta { key: MetaKey::Priority, to: 2 });
        exprs.push(Expression::Update {
            set: affinity.clone(),
            operation,
            key: 1,
            data: 2,
            timeout_millis: seconds.map(|seconds| u64::from(seconds) * 1000),
        });
        exprs
    }

    /// `dnat ip to meta l4proto . meta priority map @ENDPOINTS`
    pub fn dnat_by_id(self, endpoints: &Name) -> Vec<Expression> {
        let mut exprs = vec![
            Expression::Meta { key: MetaKey::L4Protocol, to: 1 },
            Expression::Meta { key: MetaKey::Priority, to: 9 },
        ];
        exprs.extend(self.dnat_through(endpoints));
        exprs
    }

    /// The client, from register 1 on: its address, or two hashes of an IPv6 address, because nft cannot list an update
    /// whose key is longer than 16 bytes. Returns the next free register.
    fn client(self) -> (Vec<Expression>, Register) {
        match self.family {
            Family::Ip => (vec![self.source(1)], 9),
            Family::Ip6 => {
                let hash = |seed, to| Expression::Hash { from: 2, length: 16, modulus: u32::MAX, seed, to };
                (vec![self.source(2), hash(1, 1), self.source(2), hash(2, 9)], 10)
            }
        }
    }

    /// `ip saddr . ip daddr . meta l4proto . th dport @SET`
    pub fn is_hairpin(self, set: &Name) -> Vec<Expression> {
        let second = match self.family {
            Family::Ip => 9,
            Family::Ip6 => 2,
        };
        let (protocol, port) = match self.family {
            Family::Ip => (10, 11),
            Family::Ip6 => (3, 17),
        };
        vec![
            self.source(1),
            self.destination(second),
            Expression::Meta { key: MetaKey::L4Protocol, to: protocol },
            destination_port(port),
            Expression::Lookup { set: set.clone(), from: 1, to: None },
        ]
    }

    /// `ip saddr BLOCK`, `ip saddr != BLOCK`
    pub fn source_in(self, block: &IpNet, comparison: Comparison) -> Vec<Expression> {
        self.address_in(self.source_offset(), block, comparison)
    }

    /// `ip daddr BLOCK`, `ip daddr != BLOCK`
    pub fn destination_in(self, block: &IpNet, comparison: Comparison) -> Vec<Expression> {
        self.address_in(self.destination_offset(), block, comparison)
    }

    /// Compares whole bytes where the prefix ends on one, and masks otherwise, as nft does.
    fn address_in(self, offset: u32, block: &IpNet, comparison: Comparison) -> Vec<Expression> {
        let bytes = address_bytes(block.network());
        let prefix = usize::from(block.prefix_len());
        if prefix.is_multiple_of(8) && prefix > 0 {
            let value = bytes[..prefix / 8].to_vec();
            let length = u32::from(block.prefix_len()) / 8;
            return vec![
                network(offset, length, 1),
                Expression::Compare { comparison, from: 1, value: value.into() },
            ];
        }
        let mask = prefix_mask(block.prefix_len(), self.address_length());
        let xor = vec![0; mask.len()];
        vec![
            network(offset, self.address_length(), 1),
            Expression::Bitwise { from: 1, to: 1, mask: mask.into(), xor: xor.into() },
            Expression::Compare { comparison, from: 1, value: bytes.into() },
        ]
    }
}

/// Looks up the key in register 1 and stores the value in the packet's priority.
fn load_priority_from(map: &Name) -> [Expression; 2] {
    [
        Expression::Lookup { set: map.clone(), from: 1, to: Some(1) },
        Expression::MetaSet { key: MetaKey::Priority, from: 1 },
    ]
}

fn network(offset: u32, length: u32, to: Register) -> Expression {
    Expression::Payload { base: PayloadBase::Network, offset, length, to }
}

fn destination_port(to: Register) -> Expression {
    Expression::Payload { base: PayloadBase::Transport, offset: 2, length: 2, to }
}

/// nft names a register that begins a 16-byte one by its short number.
fn nft_register(register: Register) -> Register {
    match register {
        8 => 1,
        12 => 2,
        16 => 3,
        20 => 4,
        other => other,
    }
}

fn prefix_mask(prefix_length: u8, bytes: u32) -> Vec<u8> {
    let ones = u128::MAX.checked_shl(bytes * 8 - u32::from(prefix_length).min(bytes * 8)).unwrap_or_default();
    ones.to_be_bytes()[16 - bytes as usize..].to_vec()
}

fn address_bytes(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    }
}
