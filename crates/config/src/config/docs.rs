//! `docs/configuration.md`, from the table of fields and the list of gates.

use std::fmt::Write;

use super::fields::{self, Age, Field, OnChange};
use super::v1alpha1::{API_VERSION, KIND, KubeProxyConfiguration};
use crate::gates;

/// The whole page.
pub fn page() -> String {
    let mut text = format!(
        "# Configuration file\n\nGenerated from the table of fields by `ferrule docs configuration`; do not edit by hand.\n\n\
         `--config` names a YAML or JSON file of `apiVersion: {API_VERSION}`, `kind: {KIND}`, the same file kube-proxy \
         reads. Field names are case-sensitive. Unknown fields and keys set twice are ignored with a warning; a value \
         of the wrong type is an error. Of several YAML documents only the first is read.\n\n\
         **When changed** says what a running proxy does when the file changes: *applied* without a restart, *restart* \
         (the process exits and is started again, as kube-proxy does), or *ignored*. A file that changes both kinds of \
         fields restarts; a file that is not valid is refused, and the old configuration stays.\n\n"
    );
    text.push_str("| Field | Type | Default | Modes | When changed | Meaning |\n|---|---|---|---|---|---|\n");
    for field in fields::all() {
        row(&mut text, field);
    }
    text.push_str("\n## Feature gates\n\n");
    text.push_str(
        "Every gate of Kubernetes 1.36 and 1.37 is accepted with its rules: a locked gate takes only its default, an \
         unknown name is an error. These change something here:\n\n| Gate | Default | Effect |\n|---|---|---|\n",
    );
    for (name, effect) in gates::EFFECTS {
        let default = gates::known().find(|gate| gate.name == *name).is_some_and(|gate| gate.default);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "| `{name}` | {} | {effect} |", if default { "on" } else { "off" });
    }
    text
}

fn row(text: &mut String, field: &Field) {
    let kind = (field.slot)(&mut KubeProxyConfiguration::default()).kind();
    let default = if field.default.contains(' ') || field.default == "none" {
        field.default.to_owned()
    } else {
        format!("`{}`", field.default)
    };
    let on_change = match field.on_change {
        OnChange::Apply => "applied",
        OnChange::Restart => "restart",
        OnChange::Ignore => "ignored",
    };
    let age = match field.age {
        Age::Current => String::new(),
        Age::Gone(since) => format!(" Gone from the API since {since}."),
    };
    let _ = writeln!(
        text,
        "| `{}` | {kind} | {default} | {} | {on_change} | {}{age} |",
        field.path, field.modes, field.doc
    );
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_page_in_the_tree_is_current() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            page == super::page(),
            "run `cargo run -q -p ferrule -- docs configuration > docs/configuration.md`"
        );
    }
}
