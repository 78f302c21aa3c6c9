//! Changes of real files: what is to be done, and the one line that says so.

use std::fs;
use std::path::PathBuf;

use ferrule_config::cli::parse;
use ferrule_config::complete;
use ferrule_config::settings::LoggingSettings;

use super::*;
use crate::logging::captured::{bodies, capture};

const HEADER: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";
const SOON: Duration = Duration::from_secs(10);

/// A running proxy's configuration, from a file in a folder of its own.
struct Running {
    _folder: tempfile::TempDir,
    path: PathBuf,
    live: LiveConfig,
}

impl Running {
    fn new(body: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("config.conf");
        let content = format!("{HEADER}{body}");
        fs::write(&path, &content).expect("written");
        let line = parse(&[format!("--config={}", path.display())]).expect("good flags");
        let completed = complete(&line, |path| fs::read(path)).expect("valid");
        let watched = LiveConfig::new(&line, &completed, content.into_bytes());
        Self { _folder: folder, path, live: watched }
    }

    fn write(&mut self, body: &str) -> (Option<Reload>, Vec<String>) {
        fs::write(&self.path, format!("{HEADER}{body}")).expect("written");
        self.outcome()
    }

    /// What is to be done about a change made just now, and the lines logged, with the file's path shortened.
    fn outcome(&mut self) -> (Option<Reload>, Vec<String>) {
        let mut reload = None;
        let captured = capture(&LoggingSettings::default(), |_| {
            reload = self.live.next(SOON);
        });
        let text = captured.errors.replace(&self.path.display().to_string(), "FILE");
        (reload, bodies(&text))
    }
}

#[test]
fn a_live_change_is_applied_and_the_next_is_judged_against_it() {
    let mut running = Running::new("");
    let (reload, lines) = running.write("logging: {verbosity: 4}\nconntrack: {min: 5}\n");
    let Some(Reload::Apply { settings, .. }) = reload else { panic!("{reload:?}") };
    assert_eq!(settings.logging.verbosity, 4);
    let expected = "I \"Configuration file changed, applying it\" file=\"FILE\" \
                    fields=\"logging.verbosity, conntrack.min\"";
    assert_eq!(lines, [expected]);
    let (_, lines) = running.write("logging: {verbosity: 4}\nconntrack: {min: 6}\n");
    assert_eq!(
        lines,
        ["I \"Configuration file changed, applying it\" file=\"FILE\" fields=\"conntrack.min\""]
    );
}

/// Row: server 8.12 #1
#[test]
fn a_change_that_needs_it_asks_for_a_restart() {
    let (reload, lines) = Running::new("").write("mode: nftables\n");
    assert_eq!(reload, Some(Reload::Restart { because_of: vec!["mode"] }));
    let expected = "I \"Configuration file changed in fields that need a restart, exiting\" file=\"FILE\" \
                    fields=\"mode\"";
    assert_eq!(lines, [expected]);
}

#[test]
fn an_invalid_file_is_rejected_in_one_line_and_the_old_one_stays() {
    let mut running = Running::new("");
    for (body, reason) in [
        ("oomScoreAdj: x\n", "failed to decode: line 3: oomScoreAdj: "),
        ("mode: bogus\noomScoreAdj: 5000\n", "Mode.ProxyMode: Invalid value: \\\"bogus\\\""),
        ("foo: [\n", "failed to decode: line "),
    ] {
        let (reload, lines) = running.write(body);
        assert_eq!(reload, None, "{body}");
        let [line] = lines.as_slice() else { panic!("{lines:?}") };
        assert!(line.starts_with("E \"Configuration file is invalid, the configuration in effect stays\""));
        assert!(line.contains(reason), "{line}");
    }
    let (reload, lines) = running.write("");
    assert_eq!(reload, None);
    assert_eq!(lines, ["I \"Configuration file changed, no effective change\" file=\"FILE\""]);
}

#[test]
fn a_file_that_is_gone_is_logged_once_and_so_is_its_return() {
    let mut running = Running::new("");
    fs::remove_file(&running.path).expect("removed");
    let (reload, lines) = running.outcome();
    assert_eq!(reload, None);
    let expected = "W \"Configuration file cannot be read, the configuration in effect stays\" file=\"FILE\" \
                    reason=\"entity not found\"";
    assert_eq!(lines, [expected]);
    let (reload, lines) = running.write("conntrack: {min: 5}\n");
    assert!(matches!(reload, Some(Reload::Apply { .. })));
    assert_eq!(lines.len(), 1, "{lines:?}");
}

#[test]
fn warnings_stand_in_the_same_line() {
    let (_, lines) = Running::new("").write("conntrack: {min: 5}\nverbosity: 4\nfeatureGates: {}\n");
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert!(line.contains("fields=\"conntrack.min\" warnings=\"line 4: unknown field"), "{line}");
}
