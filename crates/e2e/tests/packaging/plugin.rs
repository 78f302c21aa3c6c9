//! The kubectl plugin: which node it asks, in which pod, and what it passes on. kubectl is a script here that says what it was asked.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;

use crate::tools::root;

/// Answers as kubectl does in a cluster of two nodes, on each of which a pod of the proxy runs. What is executed is printed, and
/// ends with 1, as `explain` may.
const KUBECTL: &str = r#"#!/bin/sh
echo "$*" >>"$ASKED"
case "$*" in
    *"get nodes"*) printf 'worker-1\nworker-2\n' ;;
    *"get pod "*shop*web*) printf '10.244.2.7 worker-2' ;;
    *"get pod "*shop*pending*) printf ' ' ;;
    *"get pod "*) echo 'Error from server (NotFound)' >&2; exit 1 ;;
    *"get pods"*spec.nodeName=worker-[12],*) echo "pod/ferrule-on-$(echo "$*" | sed 's/.*nodeName=\([^,]*\),.*/\1/')" ;;
    *"get pods"*) ;;
    *exec*) echo "executed: $*"; exit 1 ;;
esac
"#;

/// A folder with kubectl in it.
struct Stand {
    folder: TempDir,
}

impl Stand {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let kubectl = folder.path().join("kubectl");
        fs::write(&kubectl, KUBECTL).expect("a script");
        fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).expect("a program");
        Self { folder }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let path = format!("{}:/usr/bin:/bin", self.folder.path().display());
        Command::new(root().join("deploy/kubectl/kubectl-ferrule"))
            .args(arguments)
            .env("PATH", path)
            .env("ASKED", self.asked())
            .output()
            .expect("the plugin")
    }

    fn asked(&self) -> PathBuf {
        self.folder.path().join("asked")
    }

    /// What was executed in which pod.
    fn executed(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "the command's own exit status: {errors}");
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn refused(&self, arguments: &[&str]) -> String {
        let output = self.run(arguments);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        String::from_utf8_lossy(&output.stderr).trim().to_owned()
    }
}

#[test]
fn the_pod_of_the_node_is_asked() {
    let executed = Stand::new().executed(&[
        "--node",
        "worker-1",
        "explain",
        "10.244.1.7",
        "shop/web:http",
        "-o",
        "json",
    ]);
    assert_eq!(
        executed,
        "executed: exec --namespace=kube-system pod/ferrule-on-worker-1 -- ferrule explain 10.244.1.7 shop/web:http -o json"
    );
}

#[test]
fn a_pod_becomes_its_address_and_its_node_is_asked() {
    let stand = Stand::new();
    for arguments in [
        ["explain", "--from-pod=shop/web", "shop/db:80"].as_slice(),
        &["explain", "--from-pod", "shop/web", "shop/db:80"],
    ] {
        let executed = stand.executed(arguments);
        assert!(executed.contains("pod/ferrule-on-worker-2 -- ferrule explain --from-pod"), "{executed}");
        assert!(executed.ends_with("10.244.2.7 shop/db:80"), "{executed}");
    }
    let named = stand.executed(&["--node=worker-1", "explain", "--from-pod", "shop/web", "shop/db:80"]);
    assert!(named.contains("ferrule-on-worker-1"), "who names a node gets that one: {named}");
}

#[test]
fn flags_of_kubectl_and_hostile_words_are_passed_on_as_they_are() {
    let stand = Stand::new();
    let executed = stand.executed(&[
        "--context=a b",
        "--kubeconfig",
        "/tmp/k",
        "-n",
        "network",
        "-l",
        "app=x",
        "-c",
        "proxy",
        "--node",
        "worker-2",
        "plan",
        "--namespace",
        "$(reboot); *",
    ]);
    assert_eq!(
        executed,
        "executed: --context=a b --kubeconfig=/tmp/k exec --namespace=network --container=proxy pod/ferrule-on-worker-2 -- ferrule plan --namespace $(reboot); *"
    );
    let asked = fs::read_to_string(stand.asked()).expect("what was asked");
    assert!(
        asked.contains("--selector=app=x --field-selector=spec.nodeName=worker-2,status.phase=Running"),
        "{asked}"
    );
}

#[test]
fn what_cannot_be_asked_is_one_line() {
    let stand = Stand::new();
    assert_eq!(stand.refused(&["status"]), "Error: name a node with --node, one of: worker-1 worker-2");
    let nothing_runs = stand.refused(&["--node", "worker-3", "status"]);
    assert_eq!(
        nothing_runs,
        "Error: no pod of the proxy runs on node worker-3 (namespace kube-system, selector k8s-app=kube-proxy)"
    );
    assert!(
        stand
            .refused(&["explain", "--from-pod", "shop/nothing", "shop/db:80"])
            .ends_with("Error: there is no pod shop/nothing")
    );
    assert_eq!(
        stand.refused(&["explain", "--from-pod", "shop/pending", "shop/db:80"]),
        "Error: pod shop/pending has no address yet"
    );
    assert!(stand.refused(&["--nod", "worker-1", "status"]).starts_with("Error: there is no option --nod "));
    assert_eq!(stand.refused(&["--node"]), "Error: --node needs a value");
    assert!(stand.refused(&[]).starts_with("Asks the proxy of a node"));
}
