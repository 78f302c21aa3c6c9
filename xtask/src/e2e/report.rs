//! The suite's own report, as its test framework (Ginkgo) writes it: `--json-report`.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

/// What became of a spec.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase", tag = "result")]
pub enum Outcome {
    /// It ran and was content.
    Passed {
        /// How long it took.
        seconds: f64,
        /// How often it was tried: more than once if it failed at first.
        attempts: u32,
    },
    /// It ran and was not.
    Failed {
        /// What it said, in one line.
        message: String,
        /// The cause, where the list of exceptions names one.
        reason: Option<String>,
    },
    /// It was not run, or found that it cannot run here.
    Skipped {
        /// Why: the suite's own words, or those of the list of exceptions.
        reason: Option<String>,
    },
}

#[derive(Deserialize)]
struct Suite {
    #[serde(rename = "SpecReports", default)]
    specs: Option<Vec<Spec>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Spec {
    #[serde(default)]
    container_hierarchy_texts: Option<Vec<String>>,
    leaf_node_type: String,
    leaf_node_text: String,
    state: String,
    run_time: u64,
    #[serde(default)]
    num_attempts: u32,
    #[serde(default)]
    failure: Failure,
}

#[derive(Default, Deserialize)]
struct Failure {
    #[serde(rename = "Message", default)]
    message: String,
}

/// The group of specs that is about networks.
const GROUP: &str = "[sig-network] ";
const NANOSECONDS: f64 = 1e9;

/// Specs of the group by name, in the order of the report. Of one that ran twice the last counts.
pub fn parse(text: &str) -> Result<Vec<(String, Outcome)>> {
    let suites: Vec<Suite> = serde_json::from_str(text).context("no report of the test framework")?;
    let specs = suites.into_iter().flat_map(|suite| suite.specs.unwrap_or_default());
    let wanted = specs.filter(|spec| spec.leaf_node_type == "It");
    Ok(wanted.filter_map(|spec| Some((spec.name()?, spec.outcome()))).collect())
}

impl Spec {
    fn name(&self) -> Option<String> {
        let mut words = self.container_hierarchy_texts.clone().unwrap_or_default();
        words.push(self.leaf_node_text.clone());
        words.join(" ").strip_prefix(GROUP).map(str::to_owned)
    }

    fn outcome(&self) -> Outcome {
        let line =
            self.failure.message.lines().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned);
        match self.state.as_str() {
            #[allow(clippy::cast_precision_loss, reason = "a time in seconds, to be read by people")]
            "passed" => Outcome::Passed {
                seconds: self.run_time as f64 / NANOSECONDS,
                attempts: self.num_attempts.max(1),
            },
            "skipped" | "pending" => Outcome::Skipped { reason: line },
            other => Outcome::Failed { message: line.unwrap_or_else(|| other.to_owned()), reason: None },
        }
    }
}
