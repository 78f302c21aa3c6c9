//! What an operator is told who gave a configuration that cannot be used.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::path::PathBuf;

use ferrule_model::NodeName;
use ferrule_watch::server::{ApiAccess, Encoding, RequestRate, ServerConfig, ServerSource, user_agent};

fn refusal(access: ApiAccess) -> String {
    let config = ServerConfig {
        access,
        rate: RequestRate::Unlimited,
        user_agent: user_agent("kube-proxy", "v1.37.1"),
        encoding: Encoding::Json,
    };
    let error = ServerSource::start(&config, &NodeName::new("a"), |_| {}).unwrap_err();
    let text = error.to_string();
    assert!(!text.contains('\n'), "{text}");
    text
}

fn written(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubeconfig");
    fs::write(&path, text).unwrap();
    let said = refusal(ApiAccess::Kubeconfig { path: path.clone(), master: None });
    said.replace(path.to_str().unwrap(), "FILE").replace(folder.path().to_str().unwrap(), "FOLDER")
}

fn with_cluster(cluster: &str, user: &str) -> String {
    format!(
        "{{current-context: a, contexts: [{{name: a, context: {{cluster: a, user: a}}}}], \
         clusters: [{{name: a, cluster: {cluster}}}], users: [{{name: a, user: {user}}}]}}"
    )
}

#[track_caller]
fn check(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "\"{part}\" is not in: {text}");
    }
}

#[test]
fn a_file_that_is_not_there_is_named() {
    let path = PathBuf::from("/nowhere/kubeconfig");
    check(&refusal(ApiAccess::Kubeconfig { path, master: None }), &["/nowhere/kubeconfig", "No such file"]);
}

#[test]
fn a_file_that_is_no_kubeconfig_is_named() {
    check(&written("clusters: ["), &["FILE"]);
    check(&written(""), &["FILE", "current-context"]);
    check(&written("{current-context: b, contexts: []}"), &["FILE", "current-context"]);
    check(&written(&with_cluster("{}", "{}")), &["FILE"]);
}

#[test]
fn what_a_kubeconfig_names_must_be_there() {
    let missing = "{server: 'https://127.0.0.1:1', certificate-authority: ca.crt}";
    check(&written(&with_cluster(missing, "{}")), &["FILE", "FOLDER/ca.crt"]);
    let server = "{server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}";
    check(&written(&with_cluster(server, "{tokenFile: token}")), &["https://127.0.0.1:1", "FOLDER/token"]);
    let keys = "{client-certificate: a.crt, client-key: a.key}";
    check(&written(&with_cluster(server, keys)), &["https://127.0.0.1:1", "FOLDER/a.crt"]);
    let plugin =
        "{exec: {apiVersion: client.authentication.k8s.io/v1, command: ./missing, interactiveMode: Never}}";
    check(&written(&with_cluster(server, plugin)), &["https://127.0.0.1:1", "FOLDER/./missing"]);
}

#[test]
fn an_address_must_be_one() {
    let with = |url: &str| refusal(ApiAccess::Master { url: url.into() });
    check(&with("ftp://a"), &["ftp://a", "https://"]);
    check(&with("https:///a b"), &["https:///a b"]);
    check(&written(&with_cluster("{server: 'https://a', proxy-url: 'ftp://b'}", "{}")), &["ftp://b"]);
}

/// The test's own environment has no service account.
#[test]
fn outside_a_pod_a_kubeconfig_is_asked_for() {
    check(&refusal(ApiAccess::InCluster), &["KUBERNETES_SERVICE_HOST", "--kubeconfig"]);
}

#[test]
fn we_introduce_ourselves_as_kube_proxy_does() {
    let text = user_agent("kube-proxy", "v1.37.1");
    assert!(text.starts_with("kube-proxy/v1.37.1 (linux/") && text.contains(") ferrule/"), "{text}");
}
