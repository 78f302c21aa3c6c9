//! The version Ferrule answers for, and its own.
//!
//! Tools read `--version` of kube-proxy, so there Ferrule says the Kubernetes version whose behaviour it has; its own
//! version is in `ferrule version` and at the end of `--version=raw`.

/// The Kubernetes release whose flags, files, defaults and answers Ferrule has.
pub const KUBERNETES: KubernetesVersion = KubernetesVersion { major: 1, minor: 37, patch: 1 };
/// Ferrule's own version.
pub const FERRULE: &str = env!("CARGO_PKG_VERSION");

/// A Kubernetes release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KubernetesVersion {
    /// 1
    pub major: u32,
    /// 37
    pub minor: u32,
    /// 1
    pub patch: u32,
}

impl KubernetesVersion {
    /// `v1.37.1`
    pub fn tag(self) -> String {
        format!("v{}.{}.{}", self.major, self.minor, self.patch)
    }

    /// `1.36`: the release before, whose hidden metrics may still be asked for.
    pub fn previous_minor(self) -> String {
        format!("{}.{}", self.major, self.minor.saturating_sub(1))
    }
}

/// What `--version` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Nothing: run on, reporting this version.
    Run {
        /// The version to report, with its `v`.
        reported: String,
    },
    /// Print one line and exit.
    Short,
    /// Print every detail and exit.
    Raw,
}

/// Checks the value of `--version`.
pub(crate) fn parse_request(text: &str) -> Result<(), String> {
    request(text).map(|_| ())
}

/// Reads the value of `--version`.
pub fn request(text: &str) -> Result<Request, String> {
    if text == "raw" {
        return Ok(Request::Raw);
    }
    if let Some(on) = crate::go::parse_bool(text) {
        return Ok(if on { Request::Short } else { Request::Run { reported: KUBERNETES.tag() } });
    }
    let refusal = || format!("{text:?} is none of true, false, raw and {}…", KUBERNETES.tag());
    let rest = text.strip_prefix(&KUBERNETES.tag()).ok_or_else(refusal)?;
    // A pre-release or build part may follow, nothing else: the behaviour is that of this release.
    let suffix_is_good = rest.is_empty()
        || rest.starts_with(['-', '+'])
            && rest.len() > 1
            && rest.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-+.".contains(&byte));
    if suffix_is_good { Ok(Request::Run { reported: text.to_owned() }) } else { Err(refusal()) }
}

/// `--version`
pub fn short() -> String {
    format!("Kubernetes {}", KUBERNETES.tag())
}

/// `--version=raw`, in the form kube-proxy dumps its own.
pub fn raw() -> String {
    let KubernetesVersion { major, minor, .. } = KUBERNETES;
    format!(
        "version.Info{{Major:\"{major}\", Minor:\"{minor}\", EmulationMajor:\"\", EmulationMinor:\"\", \
         MinCompatibilityMajor:\"\", MinCompatibilityMinor:\"\", GitVersion:\"{}\", GitCommit:\"\", \
         GitTreeState:\"\", BuildDate:\"1970-01-01T00:00:00Z\", GoVersion:\"\", Compiler:\"rustc\", \
         Platform:\"linux/{}\", Ferrule:\"{FERRULE}\"}}",
        KUBERNETES.tag(),
        go_architecture()
    )
}

/// `ferrule version`
pub fn own() -> String {
    format!("ferrule {FERRULE} (answers as kube-proxy {})", KUBERNETES.tag())
}

fn go_architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_is_in_the_form_tools_parse() {
        assert_eq!(short(), "Kubernetes v1.37.1");
        assert!(raw().contains("GitVersion:\"v1.37.1\""));
    }

    #[test]
    fn only_the_same_release_may_be_claimed() {
        assert_eq!(request("v1.37.1-eks.2"), Ok(Request::Run { reported: "v1.37.1-eks.2".to_owned() }));
        assert_eq!(request("true"), Ok(Request::Short));
        assert_eq!(request("raw"), Ok(Request::Raw));
        for bad in ["v1.37.2", "1.37.1", "v1.37.10", "x", "", "v1.37.1-", "v1.37.1 "] {
            assert!(request(bad).is_err(), "{bad}");
        }
    }
}
