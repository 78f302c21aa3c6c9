//! Error messages for configurations that cannot be used.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use std::fs;
use std::path::PathBuf;

use ferrule_model::NodeName;
use ferrule_watch::server::{
    ApiAccess, Encoding, EndpointsApi, RequestRate, SecretUrl, ServerConfig, ServerSource, user_agent,
};

fn refusal(access: ApiAccess) -> String {
    let config = ServerConfig {
        access,
        rate: RequestRate::Unlimited,
        user_agent: user_agent("kube-proxy", "v1.37.1"),
        encoding: Encoding::Json,
        endpoints_api: EndpointsApi::default(),
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
    let with = |url: &str| refusal(ApiAccess::Master { url: SecretUrl::new(url) });
    check(&with("ftp://a"), &["ftp://a", "https://"]);
    check(&with("https:///a b"), &["https:///a b"]);
    check(&written(&with_cluster("{server: 'https://a', proxy-url: 'ftp://b'}", "{}")), &["ftp://b"]);
}

const SECRET: &str = "hunter2";
const SERVER: &str = "{server: 'https://127.0.0.1:1', insecure-skip-tls-verify: true}";

/// A password in an address, a token in the wrong place, what a plugin printed: none of it is in any message.
#[test]
fn secrets_are_in_no_message() {
    let by_address = |url: &str| refusal(ApiAccess::Master { url: SecretUrl::new(url) });
    let printing = |script: &str| {
        let plugin = format!(
            "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: sh, args: [-c, '{script}'], \
             interactiveMode: Never}}}}"
        );
        written(&with_cluster(SERVER, &plugin))
    };
    let messages = [
        by_address("ftp://admin:hunter2@host"),
        by_address("https://admin:hunter2@ho st"),
        by_address("ftp://host?token=hunter2"),
        written(&with_cluster("{server: 'ftp://admin:hunter2@a'}", "{}")),
        written(&with_cluster("{server: 'https://a', proxy-url: 'ftp://admin:hunter2@b'}", "{}")),
        written(&with_cluster("{server: 'https://a', proxy-url: 'http://admin:hunter2@b c'}", "{}")),
        written("{users: hunter2}"),
        written(&with_cluster(SERVER, "{token: [hunter2]}")),
        written(&with_cluster(SERVER, "{client-key-data: hunter2, client-certificate-data: hunter2}")),
        written(&with_cluster(SERVER, "{token: \"hunter2\\n\"}")),
        printing("echo hunter2; exit 1"),
        printing("echo hunter2 >&2; exit 1"),
        printing("echo hunter2"),
        printing("echo \"{token: hunter2}\""),
    ];
    for message in messages {
        assert!(!message.contains(SECRET) && !message.is_empty(), "{message}");
    }
    check(&printing("echo hunter2 >&2; exit 3"), &["sh", "by hand", "3"]);
    let config = ServerConfig {
        access: ApiAccess::Master { url: SecretUrl::new("https://admin:hunter2@host") },
        rate: RequestRate::Unlimited,
        user_agent: String::new(),
        encoding: Encoding::Json,
        endpoints_api: EndpointsApi::default(),
    };
    assert!(!format!("{config:?}").contains(SECRET));
}

/// The client library panics over such tokens.
#[test]
fn a_token_that_no_header_can_hold_is_a_clear_error() {
    for token in [r"a\nb", r"a\r", r"a\0b", r"\e[31m"] {
        let said = written(&with_cluster(SERVER, &format!("{{token: \"{token}\"}}")));
        check(&said, &["FILE", "token", "no header may have"]);
    }
    check(&written(&with_cluster(SERVER, "{token: ''}")), &["FILE", "is empty"]);
    let folder = tempfile::tempdir().unwrap();
    let printed = folder.path().join("credential.json");
    let credential = r#"{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"a\nb"}}"#;
    fs::write(&printed, credential).unwrap();
    let plugin = format!(
        "{{exec: {{apiVersion: client.authentication.k8s.io/v1, command: cat, args: ['{}'], interactiveMode: Never}}}}",
        printed.display()
    );
    check(&written(&with_cluster(SERVER, &plugin)), &["no header may have", "cat"]);
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
