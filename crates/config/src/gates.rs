//! Feature gates: which names exist, what they default to, and what a configuration makes of them.
//!
//! The whole Kubernetes list is accepted, since a cluster's shared configuration may hold any of it; `EFFECTS` says
//! what the few that matter here do. Dependencies between gates of other components are not checked.

mod table;

use std::collections::BTreeMap;

use crate::config::suggest::{MAX_SUGGESTIONS, closest};

/// How mature a gate is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Off unless asked for.
    Alpha,
    /// Mostly on.
    Beta,
    /// Done; the gate will go.
    Stable,
    /// On its way out.
    Deprecated,
}

impl Stage {
    /// The word in the metric `kubernetes_feature_enabled`.
    pub fn label(self) -> &'static str {
        match self {
            Self::Alpha => "ALPHA",
            Self::Beta => "BETA",
            Self::Stable => "",
            Self::Deprecated => "DEPRECATED",
        }
    }
}

/// A gate as Kubernetes defines it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: &'static str,
    /// How mature it is.
    pub stage: Stage,
    /// Its value unless set.
    pub default: bool,
    /// Whether it may only be set to that value.
    pub locked: bool,
    /// Whether 1.37 still knows it.
    pub known_to_1_37: bool,
}

/// Off: Endpoints are read instead of EndpointSlices. A gate of Kubernetes 1.16 to 1.24.
pub const ENDPOINT_SLICES: &str = "EndpointSliceProxying";

/// The gates that change something here, and what. All others are accepted, kept and reported.
pub(crate) const EFFECTS: &[(&str, &str)] = &[
    ("AllowServiceExternalIPs", "off: external IPs of Services are not served"),
    ("ComponentFlagz", "serves /flagz"),
    ("ComponentStatusz", "serves /statusz"),
    (
        ENDPOINT_SLICES,
        "off: Endpoints are watched instead of EndpointSlices; a gate of old releases, honoured here",
    ),
    ("KubeProxyIPVS", "off: mode ipvs is refused"),
    (
        "KubeProxyNFTablesLocalhostNodePorts",
        "NodePorts on localhost in nftables mode: TCP served, the rest rejected and counted",
    ),
    ("LoggingAlphaOptions", "allows split log streams and their buffers"),
    ("LoggingBetaOptions", "off: json logging is refused"),
];

/// Why a gate cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GateError {
    /// No release we know has it.
    #[error("unrecognized feature gate: {name}{}", .suggestion.map(|known| format!(", did you mean {known}?")).unwrap_or_default())]
    Unknown {
        /// As written.
        name: String,
        /// The gate that may have been meant.
        suggestion: Option<&'static str>,
    },
    /// Its value is fixed.
    #[error("cannot set feature gate {name} to {value}, feature is locked to {locked}")]
    Locked {
        /// The gate.
        name: &'static str,
        /// What was asked for.
        value: bool,
        /// What it is locked to.
        locked: bool,
    },
}

/// Every gate with the value it has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gates {
    values: BTreeMap<&'static str, bool>,
}

impl Default for Gates {
    fn default() -> Self {
        Self { values: known().map(|gate| (gate.name, gate.default)).collect() }
    }
}

impl Gates {
    /// Applies a configuration; all problems are reported. The warnings are for the log.
    pub fn configured(wanted: &BTreeMap<String, bool>) -> Result<(Self, Vec<String>), Vec<GateError>> {
        let (mut gates, mut warnings, mut problems) = (Self::default(), Vec::new(), Vec::new());
        gates.apply_sweeping(wanted);
        for (name, &value) in wanted {
            let suggestions =
                if problems.len() < MAX_SUGGESTIONS { Suggestions::Wanted } else { Suggestions::Enough };
            match settable(name, value, suggestions) {
                Ok(gate) => {
                    gates.values.insert(gate.name, value);
                    warnings.extend(warning(&gate, value));
                }
                Err(problem) => problems.push(problem),
            }
        }
        if problems.is_empty() { Ok((gates, warnings)) } else { Err(problems) }
    }

    /// Whether a gate is on; an unknown one is off.
    pub fn is_on(&self, name: &str) -> bool {
        self.values.get(name).copied().unwrap_or(false)
    }

    /// Every gate with its definition and value, by name.
    pub fn iter(&self) -> impl Iterator<Item = (Gate, bool)> {
        known().map(|gate| (gate, self.is_on(gate.name)))
    }

    /// `AllAlpha` and `AllBeta` set every gate of their stage that is not set by name.
    fn apply_sweeping(&mut self, wanted: &BTreeMap<String, bool>) {
        for (sweeping, stage) in [("AllAlpha", Stage::Alpha), ("AllBeta", Stage::Beta)] {
            let Some(&value) = wanted.get(sweeping) else { continue };
            for gate in known().filter(|gate| gate.stage == stage && gate.known_to_1_37) {
                self.values.insert(gate.name, value);
            }
        }
    }
}

#[derive(Clone, Copy)]
enum Suggestions {
    Wanted,
    Enough,
}

fn settable(name: &str, value: bool, suggestions: Suggestions) -> Result<Gate, GateError> {
    let Some(gate) = known().find(|gate| gate.name == name) else {
        let suggestion = match suggestions {
            Suggestions::Wanted => closest(name, known().map(|gate| gate.name)),
            Suggestions::Enough => None,
        };
        return Err(GateError::Unknown { name: name.to_owned(), suggestion });
    };
    if gate.locked && value != gate.default {
        return Err(GateError::Locked { name: gate.name, value, locked: gate.default });
    }
    Ok(gate)
}

fn warning(gate: &Gate, value: bool) -> Option<String> {
    let Gate { name, stage, known_to_1_37, .. } = gate;
    match stage {
        _ if *name == ENDPOINT_SLICES => None,
        _ if !known_to_1_37 => {
            Some(format!("Feature gate {name} is gone since Kubernetes 1.37, ignoring it"))
        }
        Stage::Stable => {
            Some(format!("Setting GA feature gate {name}={value}. It will be removed in a future release."))
        }
        Stage::Deprecated => Some(format!(
            "Setting deprecated feature gate {name}={value}. It will be removed in a future release."
        )),
        Stage::Alpha | Stage::Beta => None,
    }
}

/// Every gate of both releases.
pub fn known() -> impl Iterator<Item = Gate> {
    table::GROUPS.iter().flat_map(|group| {
        group.names.split_whitespace().map(|name| Gate {
            name,
            stage: group.stage,
            default: group.default,
            locked: group.locked,
            known_to_1_37: group.known_to_1_37,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn configured(pairs: &[(&str, bool)]) -> Result<Gates, Vec<GateError>> {
        let wanted = pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        Gates::configured(&wanted).map(|(gates, _)| gates)
    }

    #[test]
    fn both_releases_are_complete() {
        assert_eq!(known().filter(|gate| gate.known_to_1_37).count(), 254);
        assert_eq!(known().filter(|gate| !gate.known_to_1_37).count(), 25 + 1);
    }

    #[test]
    fn names_are_unique_and_effects_are_known() {
        let mut names: Vec<_> = known().map(|gate| gate.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        for (name, _) in EFFECTS {
            assert!(names.contains(name), "{name}");
        }
    }

    #[test]
    fn every_gate_takes_its_default_and_locked_ones_nothing_else() {
        for gate in known() {
            assert!(configured(&[(gate.name, gate.default)]).is_ok(), "{}", gate.name);
            assert_eq!(configured(&[(gate.name, !gate.default)]).is_err(), gate.locked, "{}", gate.name);
        }
    }

    #[test]
    fn all_problems_are_reported_with_a_guess() {
        let problems = configured(&[("WinDSR", false), ("NFTablesNetlik", true)]).expect_err("two problems");
        let texts: Vec<_> = problems.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "unrecognized feature gate: NFTablesNetlik, did you mean NFTablesNetlink?",
                "cannot set feature gate WinDSR to false, feature is locked to true"
            ]
        );
    }

    #[test]
    fn sweeping_gates_yield_to_named_ones() {
        let gates = configured(&[("AllAlpha", true), ("LoggingAlphaOptions", false)]).expect("valid");
        assert!(gates.is_on("KubeProxyNFTablesLocalhostNodePorts"));
        assert!(!gates.is_on("LoggingAlphaOptions"));
        assert!(!configured(&[("AllBeta", false)]).expect("valid").is_on("ComponentFlagz"));
    }
}
