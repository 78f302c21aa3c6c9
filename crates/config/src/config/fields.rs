//! The table of configuration fields: path, place, default, meaning, and what a change of it asks for.
//!
//! The decoder, the encoder, `docs/configuration.md`, the flags and the live reload all read this one table.
//! Defaults are text here, for people; the code that fills them in is [`crate::config::defaults`], and a test holds
//! the two together.

mod modes;
mod process;

use std::fmt;

use ferrule_plan::ProxyMode;

use super::mode::block_owner;
use super::slot::{Slot, Value};
use super::v1alpha1::KubeProxyConfiguration;

/// One leaf of the configuration.
#[derive(Debug)]
pub struct Field {
    /// The path as in the file, with dots.
    pub path: &'static str,
    /// Where the value lives.
    pub slot: fn(&mut KubeProxyConfiguration) -> Slot<'_>,
    /// The value an absent field gets, in words where it is no constant.
    pub default: &'static str,
    /// Who reads it.
    pub modes: Modes,
    /// What a running proxy does when the value changes.
    pub on_change: OnChange,
    /// Whether today's API still has it.
    pub age: Age,
    /// One or two sentences for the reader of the documentation.
    pub doc: &'static str,
}

/// Who reads a field.
#[derive(Clone, Copy, Debug)]
pub enum Modes {
    /// Every proxy mode.
    All,
    /// These; userspace mode reads the fields of iptables mode too.
    Only(&'static [ProxyMode]),
    /// This one, about IPv4.
    Ipv4Only(ProxyMode),
    /// A proxy on Windows.
    Windows,
    /// No proxy any more.
    None,
}

impl fmt::Display for Modes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::All => f.write_str("all"),
            Self::Only(modes) => {
                let names: Vec<&str> = modes.iter().map(|mode| mode.name()).collect();
                f.write_str(&names.join(", "))
            }
            Self::Ipv4Only(mode) => write!(f, "{} (IPv4)", mode.name()),
            Self::Windows => f.write_str("Windows"),
            Self::None => f.write_str("none"),
        }
    }
}

/// What a change of a field asks of a running proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnChange {
    /// Taken over without a restart.
    Apply,
    /// The process exits and its supervisor restarts it, as with kube-proxy.
    Restart,
    /// Nothing on Linux reads it.
    Ignore,
}

/// Whether a field is part of the API as of 1.37.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Age {
    /// It is.
    Current,
    /// It was, and files still carry it; the words say since when it is gone.
    Gone(&'static str),
}

impl Field {
    /// The value this configuration has for the field.
    pub fn value(&self, configuration: &KubeProxyConfiguration) -> Value {
        // Slots borrow mutably; a copy is cheap at start-up and keeps the table to one accessor per field.
        let mut copy = configuration.clone();
        (self.slot)(&mut copy).get()
    }

    /// Whether a proxy in this mode reads the field.
    pub fn counts_in(&self, mode: ProxyMode) -> bool {
        let reads = |reader: ProxyMode| reader == mode || reader == block_owner(mode);
        match self.modes {
            Modes::All => true,
            Modes::Only(modes) => modes.iter().copied().any(reads),
            Modes::Ipv4Only(reader) => reads(reader),
            Modes::Windows | Modes::None => false,
        }
    }

    /// The last part of the path.
    pub fn name(&self) -> &'static str {
        self.path.rsplit('.').next().unwrap_or(self.path)
    }
}

/// All fields, in the order of the documentation.
pub fn all() -> impl Iterator<Item = &'static Field> {
    process::FIELDS.iter().chain(modes::FIELDS)
}

/// The field with exactly this path.
pub fn find(path: &str) -> Option<&'static Field> {
    all().find(|field| field.path == path)
}

/// Whether some field's path goes on below this one.
pub fn is_group(path: &str) -> bool {
    all().any(|field| field.path.strip_prefix(path).is_some_and(|rest| rest.starts_with('.')))
}

/// The names that may stand directly below a group; the empty path is the file itself.
pub fn children(group: &str) -> Vec<&'static str> {
    let mut names: Vec<&'static str> = all()
        .filter_map(|field| match group {
            "" => Some(field.path),
            _ => field.path.strip_prefix(group)?.strip_prefix('.'),
        })
        .filter_map(|rest| rest.split('.').next())
        .collect();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::defaults::fill_defaults;
    use crate::config::encode::scalar_text;

    #[test]
    fn paths_are_unique_and_never_both_leaf_and_group() {
        let mut paths: Vec<_> = all().map(|field| field.path).collect();
        let count = paths.len();
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), count);
        for path in paths {
            assert!(!is_group(path), "{path}");
        }
    }

    #[test]
    fn slots_are_distinct_places() {
        // Filling one field must change that field alone; a copied accessor in the table would show here.
        for filled in all() {
            let mut configuration = KubeProxyConfiguration::default();
            let value = distinct_value(&(filled.slot)(&mut configuration));
            (filled.slot)(&mut configuration).put(value).expect("a value of the slot's own type");
            for other in all() {
                let changed = other.value(&configuration) != other.value(&KubeProxyConfiguration::default());
                assert_eq!(changed, other.path == filled.path, "{} after {}", other.path, filled.path);
            }
        }
    }

    #[test]
    fn documented_defaults_are_the_ones_filled_in() {
        let mut configuration = KubeProxyConfiguration::default();
        fill_defaults(&mut configuration);
        for field in all().filter(|field| !field.default.contains(' ')) {
            let filled = scalar_text(&field.value(&configuration)).unwrap_or_else(|| "none".to_owned());
            assert_eq!(field.default, filled, "{}", field.path);
        }
    }

    #[test]
    fn a_modes_own_fields_count_in_that_mode_only() {
        for (path, modes) in [
            ("mode", &ProxyMode::ALL[..]),
            ("conntrack.min", &ProxyMode::ALL),
            ("iptables.masqueradeBit", &[ProxyMode::Iptables, ProxyMode::Ipvs, ProxyMode::Userspace]),
            ("iptables.localhostNodePorts", &[ProxyMode::Iptables, ProxyMode::Userspace]),
            ("ipvs.scheduler", &[ProxyMode::Ipvs]),
            ("nftables.masqueradeBit", &[ProxyMode::Nftables]),
            ("portRange", &[ProxyMode::Userspace]),
            ("winkernel.networkName", &[]),
        ] {
            let field = find(path).expect("a field");
            for mode in ProxyMode::ALL {
                assert_eq!(field.counts_in(mode), modes.contains(&mode), "{path} in {mode:?}");
            }
        }
    }

    #[test]
    fn children_lists_each_name_once() {
        assert_eq!(children("detectLocal"), ["bridgeInterface", "interfaceNamePrefix"]);
        assert_eq!(children("logging.options"), ["text", "json"]);
        assert!(children("").contains(&"conntrack"));
    }

    fn distinct_value(slot: &Slot<'_>) -> Value {
        use crate::go::{GoDuration, Quantity};
        match slot {
            Slot::Bool(_) | Slot::OptionalBool(_) => Value::Bool(true),
            Slot::Int32(_) | Slot::OptionalInt32(_) => Value::Int32(77),
            Slot::Uint32(_) => Value::Uint32(77),
            Slot::Float32(_) => Value::Float32(7.5),
            Slot::Text(_) | Slot::Mode(_) => Value::Text("text".to_owned()),
            Slot::Duration(_) | Slot::OptionalDuration(_) | Slot::Flush(_) => {
                Value::Duration(GoDuration::seconds(77))
            }
            Slot::TextList(_) => Value::TextList(vec!["entry".to_owned()]),
            Slot::Gates(_) => Value::Gates([("Gate".to_owned(), true)].into()),
            Slot::VModule(_) => Value::VModule(vec![super::super::v1alpha1::VModuleItem::default()]),
            Slot::Quantity(_) => Value::Quantity(Quantity::parse("1k").expect("a quantity")),
        }
    }
}
