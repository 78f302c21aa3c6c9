//! `docs/flags.md`, from the flag table.

use std::fmt::Write;

use super::flags::{self, Flag, Lifecycle, WithConfigFile};
use super::version;

/// The whole page.
pub fn page() -> String {
    let mut text = format!(
        "# Flags\n\nGenerated from the flag table by `ferrule docs flags`; do not edit by hand.\n\n\
         Ferrule takes the Linux flags of kube-proxy {}, with the same names, types and defaults, under either name \
         (`ferrule`, `kube-proxy`). `_` may stand for `-` in a flag's name. Switches are `--name` or `--name=false`, \
         never `--name false`. Durations are Go's (`300ms`, `1h30m`, a bare `0`).\n\n\
         **File** says what becomes of the flag when `--config` names a file: *ignored*, *counts* as always, or \
         *merged* (wins over the file, or is added to it).\n\n",
        version::KUBERNETES.tag()
    );
    text.push_str("| Flag | Type | Default | File | Field | Meaning |\n|---|---|---|---|---|---|\n");
    for flag in flags::all().into_iter().filter(|flag| flag.is_shown()) {
        row(&mut text, flag);
    }
    text.push_str("\n## Hidden flags\n\nAccepted, and not listed by `--help`.\n\n");
    text.push_str("| Flag | Type | Default | File | Field | Meaning |\n|---|---|---|---|---|---|\n");
    for flag in flags::all().into_iter().filter(|flag| !flag.is_shown()) {
        row(&mut text, flag);
    }
    text.push_str(COMMANDS);
    text
}

fn row(text: &mut String, flag: &Flag) {
    let short = flag.short.map(|letter| format!("`-{letter}`, ")).unwrap_or_default();
    let kind = match flag.value_word() {
        "" => "bool",
        word => word,
    };
    let default = if flag.default.is_empty() { String::new() } else { format!("`{}`", flag.default) };
    let lifecycle = match flag.lifecycle {
        Lifecycle::Current => String::new(),
        Lifecycle::Deprecated(hint) => format!(" **Deprecated**: {hint}."),
        Lifecycle::GoneSince(release) => format!(" Gone from kube-proxy since {release}."),
    };
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "| {short}`--{}` | {kind} | {default} | {} | {} | {}{lifecycle} |",
        flag.name,
        with_config_file(flag),
        field(flag),
        flag.doc
    );
}

/// The field a flag sets; some set that of the active mode.
fn field(flag: &Flag) -> String {
    match flag.name {
        flags::CLUSTER_CIDR => "`clusterCIDR`".to_owned(),
        flags::HOSTNAME_OVERRIDE => "`hostnameOverride`".to_owned(),
        flags::HEALTHZ_PORT => "`healthzBindAddress`".to_owned(),
        flags::METRICS_PORT => "`metricsBindAddress`".to_owned(),
        flags::MASQUERADE_ALL => "`masqueradeAll` of the active mode".to_owned(),
        flags::IPTABLES_SYNC_PERIOD => "`syncPeriod` of the active mode".to_owned(),
        flags::IPTABLES_MIN_SYNC_PERIOD => "`minSyncPeriod` of the active mode".to_owned(),
        flags::IPVS_SYNC_PERIOD => "`ipvs.syncPeriod`".to_owned(),
        flags::IPVS_MIN_SYNC_PERIOD => "`ipvs.minSyncPeriod`".to_owned(),
        _ if flag.field.is_empty() => String::new(),
        _ => format!("`{}`", flag.field),
    }
}

fn with_config_file(flag: &Flag) -> &'static str {
    match flag.with_config_file {
        WithConfigFile::Ignored => "ignored",
        WithConfigFile::Counts => "counts",
        WithConfigFile::Merged => "merged",
    }
}

const COMMANDS: &str = "\n## Commands\n\nOnly under the name `ferrule`, and only as the first argument; kube-proxy takes \
no positional arguments, so none of its command lines can mean one of these.\n\n\
| Command | Does |\n|---|---|\n\
| `ferrule version` | Ferrule's own version (`--version` tells the Kubernetes version it answers for) |\n\
| `ferrule completion bash\\|zsh\\|fish` | prints a completion script; works under the name `kube-proxy` too |\n\
| `ferrule man` | prints the man page |\n\
| `ferrule docs flags\\|configuration` | prints this page, or `docs/configuration.md` |\n\
| `ferrule help` | the same as `--help` |\n";

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_in_the_tree_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/flags.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == super::page(), "run `cargo run -q -p ferrule -- docs flags > docs/flags.md`");
    }
}
