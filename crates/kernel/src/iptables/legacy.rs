//! The tables of the legacy variant, as far as `/proc` shows them.

use std::fs;
use std::path::Path;

use super::{IptablesCommands, Variant};
use crate::nft::Family;

/// They exist once the module of a family is loaded.
const TABLE_NAMES: [&str; 2] =
    ["/proc/thread-self/net/ip_tables_names", "/proc/thread-self/net/ip6_tables_names"];

/// Whether any table of the legacy variant is in use, so that only raw sockets can change it.
pub fn has_tables() -> bool {
    let has_tables = |file: &str| fs::read_to_string(file).is_ok_and(|names| !names.trim().is_empty());
    TABLE_NAMES.into_iter().any(has_tables)
}

/// Whether the programs of the legacy variant may have something to do: it has tables, or it is what `iptables` is here.
pub fn is_in_use() -> bool {
    has_tables() || is_default()
}

fn is_default() -> bool {
    IptablesCommands::new(Family::Ip, Variant::Default).resolved_variant() == Some(Variant::Legacy)
}

/// Whether the legacy variant is this host's, and its programs would have to load the module of its tables themselves.
pub fn needs_module() -> bool {
    let is_loaded = TABLE_NAMES.iter().all(|file| Path::new(file).exists());
    !is_loaded && is_default()
}
