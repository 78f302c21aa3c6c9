//! Splitting a story into its sections, and putting it together again.

use super::StoryError;

/// One section: its header line and its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Section {
    /// The line its header is on, counted from 1.
    pub line: usize,
    pub kind: Kind,
    header: String,
    pub body: String,
}

/// What a section is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// How the proxy is run.
    Proxy,
    /// The cluster in a few words.
    Cluster,
    /// Kubernetes objects in YAML.
    Objects,
    /// A change, said in the header or below it.
    Then(String),
    /// What packets find; written by people.
    Packets,
    /// Which flows must go; written by people.
    Flows,
    /// Derived: one of these is compared, and rewritten by `bless`.
    Derived(Derived),
}

/// What can be derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Derived {
    Plan,
    Node,
    Delta,
    Diagnostics,
    Counts,
    /// What a mode makes of the plan.
    Program(Program),
}

/// The modes whose programs can be shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Program {
    Ipvs,
}

impl Section {
    /// The section with another body.
    pub(super) fn text_with(&self, derived: Option<&str>) -> String {
        format!("{}\n{}", self.header, derived.unwrap_or(&self.body))
    }

    pub(super) fn is_written_by_people(&self) -> bool {
        matches!(self.kind, Kind::Packets | Kind::Flows)
    }

    /// The rows of its table, without the header.
    pub(super) fn rows(&self) -> usize {
        super::tables::rows(self).len()
    }
}

/// The text before the first header, and the sections.
pub(super) fn split(text: &str) -> Result<(String, Vec<Section>), StoryError> {
    let mut preamble = String::new();
    let mut sections: Vec<Section> = Vec::new();
    for (at, line) in text.split_inclusive('\n').enumerate() {
        if let Some(title) = title_of(line).map_err(|problem| StoryError { line: at + 1, problem })? {
            let kind = kind(title).map_err(|problem| StoryError { line: at + 1, problem })?;
            let header = line.trim_end_matches(['\n', '\r']).to_string();
            sections.push(Section { line: at + 1, kind, header, body: String::new() });
        } else {
            sections.last_mut().map_or(&mut preamble, |section| &mut section.body).push_str(line);
        }
    }
    Ok((preamble, sections))
}

/// `-- title --`, and nothing else on the line. A line that only begins so is a slip, which must not be taken for the
/// text of a section: that of a derived one is rewritten.
fn title_of(line: &str) -> Result<Option<&str>, String> {
    let line = line.trim();
    match line.strip_prefix("--").filter(|rest| !rest.starts_with('-')) {
        None => Ok(None),
        Some(rest) => match rest.strip_prefix(' ').and_then(|rest| rest.strip_suffix(" --")) {
            Some(title) => Ok(Some(title.trim())),
            None => Err(format!("\"{line}\" should be a header: -- TITLE --")),
        },
    }
}

fn kind(title: &str) -> Result<Kind, String> {
    Ok(match title {
        "proxy" => Kind::Proxy,
        "cluster" => Kind::Cluster,
        "objects" => Kind::Objects,
        "then" => Kind::Then(String::new()),
        "packets" => Kind::Packets,
        "flows" => Kind::Flows,
        "plan" => Kind::Derived(Derived::Plan),
        "node" => Kind::Derived(Derived::Node),
        "delta" => Kind::Derived(Derived::Delta),
        "diagnostics" => Kind::Derived(Derived::Diagnostics),
        "counts" => Kind::Derived(Derived::Counts),
        "program: ipvs" => Kind::Derived(Derived::Program(Program::Ipvs)),
        other => match other.strip_prefix("then:") {
            Some(change) => Kind::Then(change.trim().to_string()),
            None => {
                return Err(format!(
                    "unknown section \"{other}\" (proxy, cluster, objects, then, packets, flows, plan, node, delta, \
                     diagnostics, counts, program: ipvs)"
                ));
            }
        },
    })
}
