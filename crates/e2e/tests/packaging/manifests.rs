//! One source of truth, in two forms, that a real API server takes.

use std::fs;

use ferrule_testkit::api_server::{self, ApiServer};
use serde_json::{Value, json};

use crate::render::{Objects, Renderers, VARIANTS};
use crate::tools::root;

#[test]
fn helm_and_kustomize_give_the_same_objects() {
    let Some(renderers) = Renderers::find() else { return };
    for variant in &VARIANTS {
        let (kustomize, helm) = (renderers.kustomize(variant), renderers.helm(variant));
        let names = |objects: &Objects| objects.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&kustomize), names(&helm), "{}", variant.folder);
        for (name, object) in &kustomize {
            assert_eq!(object, &helm[name], "{name} of {}", variant.folder);
        }
    }
}

#[test]
fn a_real_api_server_takes_every_object() {
    let Some(renderers) = Renderers::find().filter(|_| api_server::or_skip()) else { return };
    let server = ApiServer::shared();
    for variant in &VARIANTS {
        for (name, object) in renderers.kustomize(variant) {
            // Its kind is the Prometheus Operator's.
            if object["kind"] == "PodMonitor" {
                continue;
            }
            // An unknown field is an error too.
            let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(&object));
            let stored = server.create(&path, &as_sent(object)).map_err(|error| error.with_sources());
            stored.unwrap_or_else(|error| panic!("{name} of {}: {error}", variant.folder));
        }
    }
}

#[test]
fn the_api_server_refuses_what_is_wrong() {
    let Some(renderers) = Renderers::find().filter(|_| api_server::or_skip()) else { return };
    let mut object = renderers.kustomize(&VARIANTS[0]).remove("DaemonSet ferrule").expect("the proxy");
    object["spec"]["template"]["spec"]["containers"][0]["livenessProbes"] = json!({});
    let path = format!("{}?dryRun=All&fieldValidation=Strict", collection(&object));
    let refused = ApiServer::shared().create(&path, &object).expect_err("an unknown field").to_string();
    assert!(refused.contains("unknown field") && refused.contains("livenessProbes"), "{refused}");
}

/// The patch for kubeadm's own DaemonSet changes its image and nothing else.
#[test]
fn kubeadms_daemon_set_keeps_everything_but_its_image() {
    if !api_server::or_skip() {
        return;
    }
    let server = ApiServer::shared();
    let before =
        server.create("/apis/apps/v1/namespaces/kube-system/daemonsets", &kubeadms()).expect("it is created");
    let patch = fs::read_to_string(root().join("deploy/kustomize/kubeadm/patch.yaml")).expect("the patch");
    let patch: Value = serde_saphyr::from_str(&patch).expect("YAML");
    let kubeadms = "/apis/apps/v1/namespaces/kube-system/daemonsets/kube-proxy?fieldValidation=Strict";
    let mut after = server.patch_strategically(kubeadms, &patch).expect("it is patched");
    let image = &mut after["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image.take(), "registry.example/ferrule:0.1.0");
    *image = before["spec"]["template"]["spec"]["containers"][0]["image"].clone();
    assert_eq!(after["spec"], before["spec"]);
}

#[test]
fn the_chart_says_what_is_missing_or_cannot_be() {
    let Some(renderers) = Renderers::find() else { return };
    for (values, message) in [
        (&[][..], "apiServer.host is not set"),
        (&["apiServer.host=a", "mode=nft"], "mode \"nft\" is none of"),
        (&["apiServer.host=a", "mode=userspace", "podMonitor.enabled=true"], "two pods overlap"),
    ] {
        let said = renderers.helm_refuses(values);
        assert!(said.contains(message), "{said}");
    }
}

/// Every pod runs with the least that its mode needs; the init container alone has more, and ends at once.
#[test]
fn rights_are_the_least_that_the_mode_needs() {
    let Some(renderers) = Renderers::find() else { return };
    for variant in &VARIANTS {
        let objects = renderers.kustomize(variant);
        let pod = &objects["DaemonSet ferrule"]["spec"]["template"]["spec"];
        let container = &pod["containers"][0]["securityContext"];
        let is_legacy = variant.folder.contains("legacy");
        let added = if is_legacy { json!(["NET_ADMIN", "NET_RAW"]) } else { json!(["NET_ADMIN"]) };
        assert_eq!(container["capabilities"], json!({ "drop": ["ALL"], "add": added }), "{}", variant.folder);
        assert_eq!(container["allowPrivilegeEscalation"], false);
        assert_eq!(container["readOnlyRootFilesystem"], true);
        assert_eq!(container["privileged"], Value::Null);
        assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
        let config = &objects["ConfigMap ferrule"]["data"]["config.conf"];
        let is_root = config["mode"] != "nftables";
        assert_eq!(pod["securityContext"]["runAsNonRoot"], !is_root, "{}", variant.folder);
        assert_eq!(pod["hostPID"], Value::Null);
        assert_eq!(pod["priorityClassName"], "system-node-critical");
    }
}

fn collection(object: &Value) -> String {
    let group = match object["apiVersion"].as_str() {
        Some("v1") => "/api/v1".to_owned(),
        other => format!("/apis/{}", other.unwrap_or_default()),
    };
    let kind = format!("{}s", object["kind"].as_str().unwrap_or_default().to_lowercase());
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{group}/namespaces/{namespace}/{kind}"),
        None => format!("{group}/{kind}"),
    }
}

/// The configuration is a text again.
fn as_sent(mut object: Value) -> Value {
    if object["data"]["config.conf"].is_object() {
        object["data"]["config.conf"] = object["data"]["config.conf"].to_string().into();
    }
    object
}

/// What kubeadm makes.
fn kubeadms() -> Value {
    let mounts = json!([
        { "name": "kube-proxy", "mountPath": "/var/lib/kube-proxy" },
        { "name": "xtables-lock", "mountPath": "/run/xtables.lock" },
        { "name": "lib-modules", "mountPath": "/lib/modules", "readOnly": true },
    ]);
    let container = json!({
        "name": "kube-proxy", "image": "registry.example/kube-proxy:v1.37.1", "imagePullPolicy": "IfNotPresent",
        "command": [
            "/usr/local/bin/kube-proxy", "--config=/var/lib/kube-proxy/config.conf", "--hostname-override=$(NODE_NAME)",
        ],
        "env": [{ "name": "NODE_NAME", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" } } }],
        "securityContext": { "privileged": true }, "volumeMounts": mounts,
    });
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": { "name": "kube-proxy", "namespace": "kube-system", "labels": { "k8s-app": "kube-proxy" } },
        "spec": {
            "selector": { "matchLabels": { "k8s-app": "kube-proxy" } },
            "template": {
                "metadata": { "labels": { "k8s-app": "kube-proxy" } },
                "spec": {
                    "containers": [container], "hostNetwork": true, "priorityClassName": "system-node-critical",
                    "serviceAccountName": "kube-proxy", "tolerations": [{ "operator": "Exists" }],
                    "nodeSelector": { "kubernetes.io/os": "linux" },
                    "volumes": [
                        { "name": "kube-proxy", "configMap": { "name": "kube-proxy" } },
                        { "name": "xtables-lock", "hostPath": { "path": "/run/xtables.lock", "type": "FileOrCreate" } },
                        { "name": "lib-modules", "hostPath": { "path": "/lib/modules" } },
                    ],
                },
            },
        },
    })
}
