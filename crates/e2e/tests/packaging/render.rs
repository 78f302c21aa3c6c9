//! The manifests of `deploy/` as helm and kustomize render them: objects by kind and name.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::tools::{by_script, root};

/// Objects by kind and name. The proxy's configuration, which is a text in a ConfigMap, is read too.
pub type Objects = BTreeMap<String, Value>;

/// One way to install: a folder for kustomize, values for helm.
pub struct Variant {
    pub folder: &'static str,
    pub values: &'static [&'static str],
}

/// Every way that the manifests provide for.
pub const VARIANTS: [Variant; 7] = [
    Variant { folder: "overlays/nftables", values: &["mode=nftables"] },
    Variant { folder: "overlays/iptables", values: &["mode=iptables"] },
    Variant { folder: "overlays/ipvs", values: &["mode=ipvs"] },
    Variant { folder: "overlays/userspace", values: &["mode=userspace"] },
    Variant { folder: "examples/legacy-iptables", values: &["mode=iptables", "legacyIptables=true"] },
    Variant {
        folder: "examples/monitored",
        values: &["podMonitor.enabled=true", "config.metricsBindAddress=0.0.0.0:10249"],
    },
    Variant {
        folder: "examples/own-repository",
        values: &["image.repository=registry.corp.example/net/ferrule", "apiServer.host=10.0.0.2"],
    },
];

/// The programs that render, if they can be had.
pub struct Renderers {
    kustomize: std::path::PathBuf,
    helm: std::path::PathBuf,
}

impl Renderers {
    pub fn find() -> Option<Self> {
        let kustomize = by_script("scripts/peer-build", &["kustomize"])?;
        Some(Self { kustomize, helm: by_script("scripts/peer-build", &["helm"])? })
    }

    pub fn kustomize(&self, variant: &Variant) -> Objects {
        let folder = root().join("deploy/kustomize").join(variant.folder);
        rendered(&self.kustomize, &["build", folder.to_str().expect("a path")])
    }

    /// With the values of the kustomizations' placeholders, unless the variant has its own.
    pub fn helm(&self, variant: &Variant) -> Objects {
        let chart = root().join("deploy/helm/ferrule");
        let mut arguments =
            vec!["template", "ferrule", chart.to_str().expect("a path"), "--namespace=kube-system"];
        arguments.push("--kube-version=1.37.1");
        arguments.extend(["--set=apiServer.host=control-plane.example"]);
        let values: Vec<_> = variant.values.iter().map(|value| format!("--set={value}")).collect();
        arguments.extend(values.iter().map(String::as_str));
        rendered(&self.helm, &arguments)
    }

    /// What helm says if these values cannot be.
    pub fn helm_refuses(&self, values: &[&str]) -> String {
        let chart = root().join("deploy/helm/ferrule");
        let sets = values.iter().map(|value| format!("--set={value}"));
        let output = Command::new(&self.helm)
            .args(["template", "ferrule", "--kube-version=1.37.1"])
            .arg(chart)
            .args(sets)
            .output();
        let output = output.expect("helm runs");
        assert!(!output.status.success(), "{values:?} are taken");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

fn rendered(program: &Path, arguments: &[&str]) -> Objects {
    let output = Command::new(program).args(arguments).output().expect("the program runs");
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    objects(&String::from_utf8(output.stdout).expect("text"))
}

/// Reads documents of YAML.
pub fn objects(text: &str) -> Objects {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    let mut objects = Objects::new();
    for mut object in documents.into_iter().filter(|object| !object.is_null()) {
        if let Some(text) = object["data"]["config.conf"].as_str() {
            object["data"]["config.conf"] = serde_saphyr::from_str(text).expect("YAML in YAML");
        }
        let name = |field: &Value| field.as_str().expect("every object has it").to_owned();
        let key = format!("{} {}", name(&object["kind"]), name(&object["metadata"]["name"]));
        assert!(objects.insert(key.clone(), object).is_none(), "two of {key}");
    }
    objects
}
