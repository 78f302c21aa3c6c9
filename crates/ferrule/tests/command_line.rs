//! The program as a whole: exit status, streams, and what stands on them.

use std::path::PathBuf;
use std::process::{Command, Output};

const HEADER: &str = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n";

/// A folder with the program under its other name, so that tests can call it by either.
struct Installed {
    folder: tempfile::TempDir,
}

impl Installed {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        for name in ["ferrule", "kube-proxy"] {
            std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_ferrule"), folder.path().join(name))
                .expect("a link");
        }
        Self { folder }
    }

    fn run(&self, name: &str, arguments: &[&str]) -> Answer {
        let program = self.folder.path().join(name);
        let output = Command::new(program).args(arguments).current_dir(self.folder.path()).output();
        Answer::from(output.expect("the program runs"))
    }

    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).expect("written");
        path
    }
}

struct Answer {
    status: i32,
    stdout: String,
    stderr: String,
}

impl From<Output> for Answer {
    fn from(output: Output) -> Self {
        Self {
            status: output.status.code().expect("not killed by a signal"),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

fn kube_proxy(arguments: &[&str]) -> Answer {
    Installed::new().run("kube-proxy", arguments)
}

/// Row: server 8.1 #1
#[test]
fn positional_arguments_are_refused_without_usage() {
    let answer = kube_proxy(&["foo"]);
    assert_eq!(answer.status, 1);
    assert_eq!(answer.stderr, "Error: \"kube-proxy\" does not take any arguments, got [\"foo\"]\n");
    assert_eq!(answer.stdout, "");
    assert_eq!(kube_proxy(&["--cleanup", "false"]).status, 1);
    let help = kube_proxy(&["help"]);
    assert_eq!(help.stderr, "Error: \"kube-proxy\" does not take any arguments, got [\"help\"]\n");
    assert_eq!((help.status, help.stdout.as_str()), (1, ""));
}

/// Row: server 8.1 #2
#[test]
fn empty_arguments_are_accepted() {
    let answer = kube_proxy(&["", "--version"]);
    assert_eq!((answer.status, answer.stdout.as_str()), (0, "Kubernetes v1.37.1\n"));
}

/// Row: server 8.1 #3
#[test]
fn an_unknown_flag_brings_usage_and_error_on_stderr() {
    let answer = kube_proxy(&["--bogus"]);
    assert_eq!((answer.status, answer.stdout.as_str()), (1, ""));
    assert!(answer.stderr.starts_with("Usage:\n  kube-proxy [flags]\n"));
    assert!(answer.stderr.ends_with("\n\nError: unknown flag: --bogus\n"), "{}", answer.stderr);
}

#[test]
fn a_typo_is_answered_with_the_right_flag() {
    let answer = kube_proxy(&["--proxy-mdoe=nftables"]);
    assert!(answer.stderr.ends_with("Error: unknown flag: --proxy-mdoe, did you mean --proxy-mode?\n"));
}

#[test]
fn help_goes_to_stdout_and_wins_over_everything_but_parse_errors() {
    for arguments in [&["--help"][..], &["-h"], &["foo", "--help"], &["--version", "-h"]] {
        let answer = kube_proxy(arguments);
        assert_eq!((answer.status, answer.stderr.as_str()), (0, ""), "{arguments:?}");
        assert!(answer.stdout.contains("\nFlags:\n"));
    }
    assert_eq!(kube_proxy(&["--help", "--bogus"]).status, 1);
}

#[test]
fn problems_with_logging_alone_are_told_as_such() {
    let answer = kube_proxy(&["--logging-format=xml", "--write-config-to=x"]);
    let expected = "\"command failed\" err=\"initialize logging: logging.format: Invalid value: ";
    assert!(answer.stderr.contains(expected), "{}", answer.stderr);
    let both = kube_proxy(&["--logging-format=xml", "--proxy-mode=x", "--write-config-to=x"]);
    assert!(both.stderr.contains("err=\"failed validate: [logging.format: "), "{}", both.stderr);
}

#[test]
fn version_is_answered_before_the_configuration_is_read() {
    let answer = kube_proxy(&["--config=/no/such/file", "--version"]);
    assert_eq!((answer.status, answer.stdout.as_str()), (0, "Kubernetes v1.37.1\n"));
    let raw = kube_proxy(&["--version=raw"]);
    assert!(raw.stdout.starts_with("version.Info{Major:\"1\", Minor:\"37\", "), "{}", raw.stdout);
    assert!(raw.stdout.contains(concat!("Ferrule:\"", env!("CARGO_PKG_VERSION"), "\"")));
}

#[test]
fn commands_of_its_own_exist_under_its_own_name_only() {
    let installed = Installed::new();
    assert!(installed.run("ferrule", &["help"]).stdout.contains("\nFlags:\n"));
    let own = installed.run("ferrule", &["version"]);
    assert_eq!(own.status, 0);
    assert!(own.stdout.starts_with(concat!("ferrule ", env!("CARGO_PKG_VERSION"))));
    assert_eq!(installed.run("kube-proxy", &["version"]).status, 1);
    assert_eq!(installed.run("kube-proxy", &["completion", "bash"]).status, 0);
    assert_eq!(installed.run("ferrule", &["completion", "tcsh"]).status, 1);
    assert!(installed.run("ferrule", &["man"]).stdout.starts_with(".TH FERRULE 8"));
    let typo = installed.run("ferrule", &["versoin"]);
    assert_eq!(typo.status, 1);
    assert!(typo.stderr.contains("did you mean `ferrule version`?"), "{}", typo.stderr);
}

#[test]
fn a_written_configuration_is_accepted_again_and_written_the_same() {
    let installed = Installed::new();
    let first = installed.run(
        "kube-proxy",
        &["--proxy-mode=nftables", "--cluster-cidr=10.0.0.0/8", "--write-config-to=a.yaml"],
    );
    assert_eq!(first.status, 0, "{}", first.stderr);
    let second = installed.run("kube-proxy", &["--config=a.yaml", "--write-config-to=b.yaml"]);
    assert_eq!(second.status, 0, "{}", second.stderr);
    let read = |name: &str| std::fs::read_to_string(installed.folder.path().join(name)).expect("written");
    assert_eq!(read("a.yaml"), read("b.yaml"));
}

#[test]
fn two_problems_in_a_file_are_both_reported() {
    let installed = Installed::new();
    let path = installed.file("bad.yaml", &format!("{HEADER}clusterCIDR: 10.0.0.0/33\nmode: turbo\n"));
    let answer = installed.run("kube-proxy", &[&format!("--config={}", path.display())]);
    assert_eq!((answer.status, answer.stdout.as_str()), (1, ""));
    for part in
        ["\"command failed\" err=\"failed validate: [", "(mode)", "(clusterCIDR)", "turbo", "10.0.0.0/33"]
    {
        assert!(answer.stderr.contains(part), "{part} in {}", answer.stderr);
    }
}

#[test]
fn a_wrong_cidr_says_which_flag_and_why() {
    let answer = kube_proxy(&["--cluster-cidr=10.0.0.0/33"]);
    assert_eq!(answer.status, 1);
    assert!(answer.stderr.contains("must be a valid CIDR block"), "{}", answer.stderr);
    assert!(answer.stderr.contains("(--cluster-cidr)"), "{}", answer.stderr);
}

#[test]
fn lenient_decoding_is_said_and_does_not_stop() {
    let installed = Installed::new();
    installed.file("odd.yaml", &format!("{HEADER}foo: 1\n"));
    let answer = installed.run("kube-proxy", &["--config=odd.yaml", "--write-config-to=out.yaml"]);
    assert_eq!(answer.status, 0);
    assert!(
        answer
            .stderr
            .contains("\"Using lenient decoding as strict decoding failed\" err=\"line 3: unknown field")
    );
}

#[test]
fn all_flags_are_logged_at_verbosity_1() {
    let answer = kube_proxy(&["-v=1", "--write-config-to=out.yaml", "--proxy-mode=ipvs"]);
    assert!(answer.stderr.contains("] FLAG: --proxy-mode=\"ipvs\"\n"));
    assert!(answer.stderr.contains("] FLAG: --v=\"1\"\n"));
    assert!(!kube_proxy(&["--write-config-to=out.yaml"]).stderr.contains("FLAG"));
}

#[test]
fn json_logging_holds_from_the_configuration_on() {
    let answer = kube_proxy(&["--logging-format=json", "--write-config-to=out.yaml"]);
    let last = answer.stderr.lines().last().expect("a line");
    let line: serde_json::Value = serde_json::from_str(last).expect("JSON");
    assert_eq!(line["msg"], "Wrote configuration");
}

#[test]
fn outside_a_cluster_a_run_says_what_it_lacks() {
    let answer = kube_proxy(&["--proxy-mode=nftables"]);
    assert_eq!((answer.status, answer.stdout.as_str()), (1, ""));
    let last = answer.stderr.lines().last().unwrap_or_default();
    let says = ["command failed", "KUBERNETES_SERVICE_HOST", "--kubeconfig"];
    assert!(says.iter().all(|text| last.contains(text)), "{}", answer.stderr);
}

#[test]
fn deprecated_flags_are_announced_on_stderr() {
    let answer = kube_proxy(&["--healthz-port=1", "--version"]);
    assert_eq!(answer.status, 0);
    assert!(answer.stderr.starts_with("Flag --healthz-port has been deprecated, "), "{}", answer.stderr);
}

#[test]
fn complaints_come_in_the_log_format_that_was_asked_for() {
    let answer = kube_proxy(&["--logging-format=json", "--oom-score-adj=5000"]);
    assert_eq!(answer.status, 1);
    let line: serde_json::Value = serde_json::from_str(&answer.stderr).expect("one line of JSON");
    assert!(line["err"].as_str().is_some_and(|text| text.contains("(--oom-score-adj)")), "{line}");
}
