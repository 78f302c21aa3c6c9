//! Commands that ask the API server themselves, without a proxy that runs.

use std::process::Output;

use ferrule_testkit::api_server::{ApiServer, or_skip};
use serde_json::{Value, json};

use crate::site::{BINARY, PATIENCE, PODS, Site, within};

/// `ferrule COMMAND … --kubeconfig …` on the site's node.
fn run(site: &Site<'_>, words: &[&str]) -> Output {
    let mut arguments: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    arguments.extend(site.arguments());
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).filter(|word| *word != "-v=2").collect();
    let run = || std::process::Command::new(BINARY).args(&arguments).output();
    site.net.node().run(run).expect("the node").expect("the program")
}

fn answer(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or(Value::Null)
}

#[test]
fn a_cluster_is_planned_and_compared_without_a_proxy() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "questions");
    let made = site.service("web", json!({}));
    site.slice("web", &PODS[..2]);
    let plan = run(&site, &["plan", "--service", "questions/web", "-o", "json"]);
    assert_eq!(plan.status.code(), Some(0), "{plan:?}");
    assert_eq!(answer(&plan)["total"], 3, "an address, its other ports and a NodePort: {plan:?}");
    let to = format!("{}:80", made.cluster_ip);
    let explained = run(&site, &["explain", "10.244.1.100", &to, "-o", "json", "--kernel"]);
    assert_eq!(explained.status.code(), Some(0), "{explained:?}");
    assert_eq!(answer(&explained)["endpoints"].as_array().map(Vec::len), Some(2));
    assert_eq!(answer(&explained)["kernel"], "missing", "nothing serves");
    let diff = run(&site, &["diff", "-o", "json"]);
    assert_eq!(diff.status.code(), Some(1), "everything would be written: {diff:?}");

    let program = site.serve();
    let explained = || {
        let output = run(&site, &["explain", "10.244.1.100", &to, "-o", "json", "--kernel"]);
        (answer(&output)["kernel"] == "agrees").then_some(())
    };
    assert!(within(PATIENCE, explained).is_some(), "{}", program.log().join("\n"));
}

#[test]
fn an_api_server_that_does_not_let_us_in_is_one_line() {
    if !or_skip() {
        return;
    }
    let site = Site::new(ApiServer::shared(), "uninvited");
    let kubeconfig = site.kubeconfig(&json!({ "token": "nobody" }));
    let flag = format!("--kubeconfig={}", kubeconfig.display());
    let run =
        || std::process::Command::new(BINARY).args(["plan", &flag, "--hostname-override=uninvited"]).output();
    let output = site.net.node().run(run).expect("the node").expect("the program");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{errors}");
    assert!(errors.starts_with("Error: asking the API server: ") && errors.contains("401"), "{errors}");
}
