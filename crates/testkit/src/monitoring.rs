//! The metrics that the rules and the dashboard in `deploy/monitoring` name.

use std::collections::BTreeSet;

const RULES: &str = include_str!("../../../deploy/monitoring/ferrule.rules.yaml");
const DASHBOARD: &str = include_str!("../../../deploy/monitoring/dashboard.json");

/// What names of metrics begin with; `up` is Prometheus's own.
const PREFIXES: [&str; 4] = ["kubeproxy_", "ferrule_", "rest_client_", "process_"];
/// What the series of a histogram add to its name.
const HISTOGRAM: [&str; 3] = ["_bucket", "_sum", "_count"];

/// Their names, those of histograms without `_bucket` and the like. Names that rules record are left out.
pub fn metric_names() -> BTreeSet<&'static str> {
    let is_in_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '_' || letter == ':';
    let words = [RULES, DASHBOARD].into_iter().flat_map(|text| text.split(move |letter| !is_in_name(letter)));
    let is_name = |word: &&str| PREFIXES.iter().any(|prefix| word.starts_with(prefix)) && !word.contains(':');
    words.filter(is_name).map(without_histogram).collect()
}

fn without_histogram(name: &'static str) -> &'static str {
    HISTOGRAM.iter().find_map(|suffix| name.strip_suffix(suffix)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_expression_names_a_metric_or_a_recorded_one() {
        let dashboard: serde_json::Value = serde_json::from_str(DASHBOARD).expect("JSON");
        let panels = dashboard["panels"].as_array().expect("a list of panels");
        let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
        let expressions: Vec<_> =
            targets.map(|target| target["expr"].as_str().expect("an expression")).collect();
        assert!(expressions.len() > 20, "{}", expressions.len());
        for expression in expressions {
            assert!(PREFIXES.iter().any(|prefix| expression.contains(prefix)), "{expression}");
        }
        let names = metric_names();
        assert!(names.contains("kubeproxy_sync_proxy_rules_duration_seconds"), "{names:?}");
        assert!(names.contains("ferrule_drift_repairs_total"), "{names:?}");
    }
}
