//! The tables of the legacy variant, as far as `/proc` shows them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use super::{IptablesCommands, Variant};
use crate::nft::Family;
use crate::subprocess;

/// They exist once the module of a family is loaded.
const TABLE_NAMES: [&str; 2] =
    ["/proc/thread-self/net/ip_tables_names", "/proc/thread-self/net/ip6_tables_names"];

/// Whether any table of the legacy variant is in use, so that only raw sockets can change it.
pub fn has_tables() -> bool {
    let has_tables = |file: &str| fs::read_to_string(file).is_ok_and(|names| !names.trim().is_empty());
    TABLE_NAMES.into_iter().any(has_tables)
}

/// Whether the programs of the legacy variant may have something to do: it has tables, or may be what `iptables` is here. Runs no
/// program: this is asked before signals are handled.
pub fn may_be_in_use() -> bool {
    let is_other = |program: PathBuf| {
        let real = fs::canonicalize(program).ok();
        real.as_deref().and_then(Path::file_name) != Some(OsStr::new("xtables-nft-multi"))
    };
    has_tables() || subprocess::find("iptables").is_some_and(is_other)
}

/// Whether the legacy variant is this host's, and its programs would have to load the module of its tables themselves.
pub fn needs_module() -> bool {
    let is_loaded = TABLE_NAMES.iter().all(|file| Path::new(file).exists());
    let is_legacy =
        || IptablesCommands::new(Family::Ip, Variant::Default).resolved_variant() == Some(Variant::Legacy);
    !is_loaded && is_legacy()
}
