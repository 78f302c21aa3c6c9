//! The version and the feature gates, which do not change.

use ferrule_config::cli::version::KUBERNETES;
use ferrule_config::gates::Gates;
use prometheus::{IntGaugeVec, Opts, Registry, Result};

/// Declares `kubernetes_build_info` and `kubernetes_feature_enabled`.
pub fn declare(registry: &Registry, gates: &Gates) -> Result<()> {
    let labels = [
        "major",
        "minor",
        "git_version",
        "git_commit",
        "git_tree_state",
        "build_date",
        "go_version",
        "compiler",
        "platform",
    ];
    let opts = Opts::new("kubernetes_build_info", "[ALPHA] The version this program stands in for");
    let build = IntGaugeVec::new(opts, &labels)?;
    let (major, minor) = (KUBERNETES.major.to_string(), KUBERNETES.minor.to_string());
    let (version, platform) = (KUBERNETES.tag(), format!("linux/{}", architecture()));
    let values = [
        major.as_str(),
        &minor,
        &version,
        "",
        "",
        "",
        "",
        concat!("ferrule-", env!("CARGO_PKG_VERSION")),
        &platform,
    ];
    build.with_label_values(&values).set(1);
    registry.register(Box::new(build))?;

    let opts = Opts::new("kubernetes_feature_enabled", "[BETA] Whether a feature gate is on");
    let enabled = IntGaugeVec::new(opts, &["name", "stage"])?;
    for (gate, is_on) in gates.iter() {
        enabled.with_label_values(&[gate.name, gate.stage.label()]).set(i64::from(is_on));
    }
    registry.register(Box::new(enabled))
}

/// The architecture as Go names it.
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}
