//! What cannot work is told in one clear line: fatal where kube-proxy ends, tried again where it goes on.

use std::path::Path;

use ferrule_testkit::Program;
use ferrule_testkit::api_server::{ApiServer, User, Validity, kubeconfig_text, or_skip};
use serde_json::json;

use crate::site::{BINARY, PATIENCE, Site};

fn start_with(site: &Site, kubeconfig: &Path) -> Program {
    let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
    let name = format!("--hostname-override={}", site.name);
    let arguments = [kubeconfig, name, "--proxy-mode=nftables".into()];
    Program::start(site.net.node(), Path::new(BINARY), &arguments).expect("it starts")
}

/// The one line it ends with.
fn complaint(program: Program) -> String {
    let line = program.wait_for("command failed", 0, PATIENCE);
    assert!(line.is_some(), "no complaint:\n{}", program.log().join("\n"));
    assert_eq!(program.wait().expect("it ends").code(), Some(1));
    line.unwrap_or_default()
}

/// The one line about something that is tried again, after which it still runs.
fn trouble(program: Program, text: &str) -> String {
    let line = program.wait_for(text, 0, PATIENCE);
    assert!(line.is_some(), "no word of {text}:\n{}", program.log().join("\n"));
    let others = program.log().iter().filter(|other| other.contains("watching ")).count();
    assert_eq!(others, 1, "told once:\n{}", program.log().join("\n"));
    assert!(program.terminate().expect("it ends").success(), "it was running");
    line.unwrap_or_default()
}

#[test]
fn a_kubeconfig_that_cannot_be_used_ends_it() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "kubeconfig");
    let line = complaint(start_with(&site, Path::new("/nowhere/kubeconfig")));
    assert!(line.contains("/nowhere/kubeconfig") && line.contains("No such file"), "{line}");
    let line = complaint(start_with(&site, &site.file("broken", "clusters: [")));
    assert!(line.contains("reading the kubeconfig"), "{line}");
}

#[test]
fn who_may_nothing_is_told_which_role_is_missing() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "stranger");
    let path = site.kubeconfig(&json!({ "token": User::Stranger.token() }));
    let line = trouble(start_with(&site, &path), "403 Forbidden");
    assert!(line.contains("system:node-proxier"), "{line}");
}

#[test]
fn an_expired_certificate_is_told() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "expired");
    let made = site.server.authority().expect("its CA").client("system:kube-proxy", Validity::Expired);
    let (certificate, key) = made.expect("a certificate");
    let certificate = site.file("client.crt", &certificate);
    let key = site.file("client.key", &key);
    let path = site.kubeconfig(&json!({ "client-certificate": certificate, "client-key": key }));
    let line = trouble(start_with(&site, &path), "client certificate");
    assert!(line.contains("https://172.31.0.1:6443"), "{line}");
}

#[test]
fn a_server_that_is_not_there_is_waited_for() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "nobody");
    let user = json!({ "token": User::KubeProxy.token() });
    let text = kubeconfig_text("https://172.31.0.1:9", &site.server.ca_file(), &user);
    let line = trouble(start_with(&site, &site.file("nobody", &text)), "https://172.31.0.1:9");
    assert!(line.contains("refused") && line.contains("is the API server running"), "{line}");
}

#[test]
fn an_unknown_node_is_told_and_served_all_the_same() {
    if !or_skip() {
        return;
    }
    let site = Site::unknown(ApiServer::shared(), "unheard-of");
    let program = site.start(&[]);
    let line = program.wait_for("There is no such Node", 0, PATIENCE);
    let line = line.unwrap_or_else(|| panic!("{}", program.log().join("\n")));
    assert!(line.contains("unheard-of") && line.contains("--hostname-override"), "{line}");
    site.until_ready(&program);
    // Nobody knows whether it should get traffic.
    assert_eq!(site.page_until(10256, "/healthz", |_| true).status, 503);
    assert_eq!(site.page_until(10256, "/livez", |_| true).status, 200);
}
