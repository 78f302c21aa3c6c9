//! The text of `--help`, from the flag table.
//!
//! Laid out as kube-proxy lays it out (one line a flag: name, type, words, default), since people and scripts look
//! for flags there. The words are ours.

use std::fmt::Write;

use super::flags::{self, Flag, FlagKind};

/// What `--help` prints for a program of this name.
pub fn long(program: &str) -> String {
    format!("{}\n\n{}", about(program), usage(program))
}

fn about(program: &str) -> String {
    let mut text = "Serves Kubernetes Services on this node: watches Services and EndpointSlices and has the kernel send\n\
         their traffic to the right pods. Takes the flags and the configuration file of kube-proxy 1.37."
        .to_owned();
    if program != "kube-proxy" {
        text.push_str("\nCommands of its own: ferrule status, ferrule plan, ferrule explain, ferrule diff,\nferrule version, ferrule completion SHELL, ferrule man. Each explains itself with --help.");
    }
    text
}

/// Usage line and flags; also printed before an error in the command line.
pub fn usage(program: &str) -> String {
    let mut text = format!("Usage:\n  {program} [flags]\n\nFlags:\n");
    let shown: Vec<&Flag> = flags::all().into_iter().filter(|flag| flag.is_shown()).collect();
    let width = shown.iter().map(|flag| left_column(flag).len()).max().unwrap_or(0);
    for flag in shown {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:width$}   {}{}", left_column(flag), flag.doc, shown_default(flag));
    }
    text
}

fn left_column(flag: &Flag) -> String {
    let short = flag.short.map_or_else(|| "    ".to_owned(), |letter| format!("-{letter}, "));
    let word = flag.value_word();
    let gap = if word.is_empty() { "" } else { " " };
    format!("  {short}--{}{gap}{word}", flag.name)
}

/// The default, left out where it is the zero value, quoted where it is text.
pub(crate) fn shown_default(flag: &Flag) -> String {
    match (flag.kind, flag.default) {
        (FlagKind::Version, _) | (_, "" | "0" | "0s" | "false" | "[]") => String::new(),
        (FlagKind::Text, text) => format!(" (default {text:?})"),
        (_, value) => format!(" (default {value})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_every_current_flag_once_and_no_hidden_one() {
        let text = usage("kube-proxy");
        let listed: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split_whitespace().find_map(|word| word.strip_prefix("--")))
            .collect();
        let wanted: Vec<&str> =
            flags::all().into_iter().filter(|flag| flag.is_shown()).map(|flag| flag.name).collect();
        assert_eq!(listed, wanted);
    }

    #[test]
    fn defaults_show_as_pflag_shows_them() {
        let text = usage("kube-proxy");
        assert!(text.contains("(default 15m0s)"));
        assert!(text.contains("(default \"application/vnd.kubernetes.protobuf\")"));
        assert!(!text.contains("(default false)"));
    }
}
