//! etcd and kube-apiserver of a server that runs on this machine.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use std::net::Ipv4Addr;

use serde_json::json;

use super::leash::Leash;
use super::{
    ADDRESS, ApiServerError, Authority, Authorization, ETCD, Options, PORT, Slices, User, program, requests,
    write,
};
use crate::netns::Namespace;

/// The API server reports that it is ready before it has written its own objects.
const READY_WITH_SLICES: [&str; 4] = [
    "/readyz",
    "/api/v1/namespaces/default/services/kubernetes",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
    SERVICE_RANGE,
];
/// Without slices one of its own caches never fills, and it does not write its own Service.
const READY_WITHOUT_SLICES: [&str; 2] = ["/readyz?exclude=informer-sync", SERVICE_RANGE];
const SERVICE_RANGE: &str = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";

/// A start takes five seconds on an idle machine, and two minutes where the processor is imitated.
const START_TIMEOUT: Duration = Duration::from_mins(6);
const POLL_INTERVAL: Duration = Duration::from_millis(25);

/// Both processes, and the CA that signed the server's certificate.
#[derive(Debug)]
pub(super) struct Processes {
    // Dropped before etcd, whose end removes the folder.
    running: Mutex<Option<Leash>>,
    etcd: Leash,
    options: Options,
    authority: Authority,
}

impl Processes {
    /// Starts etcd alone, and writes the files that the API server will read.
    pub(super) fn start(
        namespace: &Namespace,
        folder: &Path,
        options: Options,
    ) -> Result<Self, ApiServerError> {
        let authority = Authority::new()?;
        let etcd = start_etcd(namespace, folder)?;
        write_files(&authority, folder)?;
        Ok(Self { running: Mutex::new(None), etcd, options, authority })
    }

    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// Starts the API server, unless it runs, and waits until it serves its own objects.
    pub(super) fn start_api_server(
        &self,
        namespace: &Namespace,
        folder: &Path,
        is_served: impl Fn(&str) -> bool,
    ) -> Result<(), ApiServerError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return Ok(());
        }
        let program = program("kube-apiserver");
        let log = folder.join("kube-apiserver.log");
        let arguments = arguments(&self.options, folder);
        let started = namespace.run(|| Leash::start(&program, &arguments, &log))?;
        let leash = running
            .insert(started.map_err(|source| ApiServerError::Start { program: "kube-apiserver", source })?);
        let ready: &[&str] = match self.options.slices {
            Slices::Served => &READY_WITH_SLICES,
            Slices::NotServed => &READY_WITHOUT_SLICES,
        };
        wait_for("kube-apiserver", leash, || ready.iter().all(|path| is_served(path)))
    }

    pub(super) fn stop_api_server(&self) {
        drop(self.running.lock().unwrap_or_else(PoisonError::into_inner).take());
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        self.stop_api_server();
        self.etcd.end();
    }
}

fn write_files(authority: &Authority, folder: &Path) -> Result<(), ApiServerError> {
    let tokens: String = [User::Admin, User::KubeProxy, User::Stranger].map(User::line).concat();
    let (certificate, key) = authority.server(&[ADDRESS.into(), Ipv4Addr::LOCALHOST.into()])?;
    let account = rcgen::KeyPair::generate()?;
    let files = [
        ("tokens.csv", tokens),
        ("ca.crt", authority.pem()),
        ("server.crt", certificate),
        ("server.key", key),
        ("account.key", account.serialize_pem()),
        ("account.pub", account.public_key_pem()),
    ];
    files.iter().try_for_each(|(name, text)| write(&folder.join(name), text.as_bytes()))
}

fn arguments(options: &Options, folder: &Path) -> Vec<String> {
    let file = |name: &str| folder.join(name).display().to_string();
    let mode = match options.authorization {
        Authorization::AlwaysAllow => "AlwaysAllow",
        Authorization::Rbac => "RBAC",
    };
    let mut arguments = vec![
        format!("--etcd-servers=http://{ETCD}"),
        "--bind-address=0.0.0.0".into(),
        format!("--secure-port={PORT}"),
        format!("--advertise-address={ADDRESS}"),
        format!("--cert-dir={}", file("certs")),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--token-auth-file={}", file("tokens.csv")),
        format!("--authorization-mode={mode}"),
        "--service-account-issuer=https://ferrule.test".into(),
        format!("--service-account-key-file={}", file("account.pub")),
        format!("--service-account-signing-key-file={}", file("account.key")),
        "--service-cluster-ip-range=10.96.0.0/12,fd00:96::/108".into(),
        "--disable-admission-plugins=ServiceAccount".into(),
        // As every installer has it.
        "--allow-privileged=true".into(),
        "--max-requests-inflight=4000".into(),
        "--max-mutating-requests-inflight=2000".into(),
    ];
    if options.slices == Slices::NotServed {
        arguments.push("--runtime-config=discovery.k8s.io/v1=false".into());
    }
    arguments.extend(options.flags.iter().cloned());
    arguments
}

fn start_etcd(namespace: &Namespace, folder: &Path) -> Result<Leash, ApiServerError> {
    let arguments = [
        format!("--data-dir={}", folder.join("etcd").display()),
        format!("--listen-client-urls=http://{ETCD}"),
        format!("--advertise-client-urls=http://{ETCD}"),
        "--listen-peer-urls=http://127.0.0.1:2380".into(),
        // The data need not survive a crash.
        "--unsafe-no-fsync".into(),
    ];
    let program = program("etcd");
    let log = folder.join("etcd.log");
    let started = namespace.run(|| Leash::start_and_remove(&program, &arguments, &log, folder))?;
    let leash = started.map_err(|source| ApiServerError::Start { program: "etcd", source })?;
    let is_ready = || {
        let answer = namespace.run(|| requests::plain(ETCD, "/v3/maintenance/status", &json!({})));
        matches!(answer, Ok(Ok(_)))
    };
    wait_for("etcd", &leash, is_ready)?;
    Ok(leash)
}

/// Polls until a program is ready; fails early if it exits.
fn wait_for(program: &'static str, leash: &Leash, is_ready: impl Fn() -> bool) -> Result<(), ApiServerError> {
    let started = Instant::now();
    while started.elapsed() < START_TIMEOUT {
        if is_ready() {
            return Ok(());
        }
        if leash.ends_within(POLL_INTERVAL) {
            break;
        }
    }
    Err(ApiServerError::NotReady { program, log: leash.log_end() })
}
