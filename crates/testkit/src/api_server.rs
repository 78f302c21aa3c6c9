//! A real API server for tests: etcd and kube-apiserver in a network namespace of their own.
//!
//! No kubelet, controller or scheduler runs, so objects stay as tests write them. [`ApiServer::join`] connects another
//! namespace to it. Nothing is left behind, however the test ends: both programs are on a leash. Call [`or_skip`] first:
//! not every machine has the programs, which `scripts/cluster-build` builds.

mod certificates;
mod leash;
mod objects;
mod programs;
mod requests;

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::causes;
use crate::netns::{Namespace, NetError};
pub use certificates::{Authority, Validity};
use leash::Leash;
pub use objects::{Objects, objects_of, objects_path};
pub use programs::{or_skip, program};
pub use requests::Refused;

/// The API server's address in every namespace that [joined](ApiServer::join).
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 31, 0, 1);
const PORT: u16 = 6443;
/// The address of etcd in the API server's own namespace: plain HTTP.
pub const ETCD: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2379);

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

/// Options for the API server.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// By default, the bootstrap roles.
    pub authorization: Authorization,
    /// Additional flags.
    pub flags: Vec<String>,
    /// Whether it serves EndpointSlices.
    pub slices: Slices,
}

/// Whether an API server serves EndpointSlices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Slices {
    /// As every one does since 1.21.
    #[default]
    Served,
    /// Endpoints only.
    NotServed,
}

/// How requests are authorized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// The bootstrap roles of every cluster.
    #[default]
    Rbac,
    /// Every authenticated user may do everything.
    AlwaysAllow,
}

/// Users with a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// Has all permissions.
    Admin,
    /// `system:kube-proxy`, with the role `system:node-proxier`.
    KubeProxy,
    /// Authenticated, but without any role.
    Stranger,
}

/// A running API server. It ends, and its data is removed, when it is dropped or the process ends.
#[derive(Debug)]
pub struct ApiServer {
    // Dropped before etcd, whose end removes the folder.
    running: Mutex<Option<Leash>>,
    etcd: Leash,
    namespace: Namespace,
    folder: PathBuf,
    options: Options,
    authority: Authority,
    joined: AtomicU32,
}

/// Errors of starting and using the API server.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum ApiServerError {
    #[error("making the API server's network")]
    Network(#[from] NetError),
    #[error("writing {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("making a certificate")]
    Certificate(#[from] rcgen::Error),
    #[error("starting {program}; was it built with scripts/cluster-build?")]
    Start { program: &'static str, source: io::Error },
    #[error("waiting for {program}; the end of its log:\n{log}")]
    NotReady { program: &'static str, log: String },
    #[error("sending a request to {receiver}")]
    Request { receiver: &'static str, source: io::Error },
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl User {
    /// The bearer token.
    pub fn token(self) -> &'static str {
        match self {
            Self::Admin => "admin-token",
            Self::KubeProxy => "proxy-token",
            Self::Stranger => "stranger-token",
        }
    }

    fn line(self) -> &'static str {
        match self {
            Self::Admin => "admin-token,admin,admin,system:masters\n",
            Self::KubeProxy => "proxy-token,system:kube-proxy,kube-proxy\n",
            Self::Stranger => "stranger-token,stranger,stranger\n",
        }
    }
}

impl ApiServer {
    /// Starts both programs, and waits until they are ready.
    pub fn start(options: Options) -> Result<Self, ApiServerError> {
        let namespace = Namespace::new("api server")?;
        namespace.feed(
            "ip",
            &["-batch", "-"],
            &format!(
                "link set lo up\n\
                 link add cluster type bridge\n\
                 address add {ADDRESS}/16 dev cluster\n\
                 link set cluster up\n"
            ),
        )?;
        let folder = new_folder()?;
        let authority = Authority::new()?;
        let etcd = start_etcd(&namespace, &folder)?;
        let server = Self {
            running: Mutex::new(None),
            etcd,
            namespace,
            folder,
            options,
            authority,
            joined: AtomicU32::new(0),
        };
        server.write_files()?;
        server.start_api_server()?;
        Ok(server)
    }

    /// One server with default options for all tests of a binary, started on first use.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<ApiServer> = OnceLock::new();
        SHARED.get_or_init(|| match Self::start(Options::default()) {
            Ok(server) => server,
            #[expect(clippy::panic, reason = "a test cannot continue")]
            Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
        })
    }

    /// The namespace it runs in.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The folder of its files. Tests may add their own.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(ADDRESS.into(), PORT)
    }

    /// The URL of [`Self::address`].
    pub fn url(&self) -> String {
        format!("https://{}", self.address())
    }

    /// The file with the CA certificate.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// The CA of its server certificate and of client certificates.
    pub fn authority(&self) -> &Authority {
        &self.authority
    }

    /// A kubeconfig with a user's token.
    pub fn kubeconfig(&self, user: User) -> Result<PathBuf, ApiServerError> {
        let path = self.folder.join(format!("{user:?}.kubeconfig"));
        let user = json!({ "token": user.token() });
        let text = kubeconfig_text(&self.url(), &self.ca_file(), &user);
        write(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Connects another namespace by an interface with this address of 172.31.0.0/16.
    pub fn join(&self, namespace: &Namespace, address: Ipv4Addr) -> Result<(), ApiServerError> {
        let port = format!("port{}", self.joined.fetch_add(1, Ordering::Relaxed));
        let cable = format!("link add {port} type veth peer name api0 netns {}\n", namespace.path());
        let plug = format!("link set {port} master cluster up\n");
        self.namespace.feed("ip", &["-batch", "-"], &(cable + &plug))?;
        let commands = format!("link set lo up\naddress add {address}/16 dev api0\nlink set api0 up\n");
        namespace.feed("ip", &["-batch", "-"], &commands)?;
        Ok(())
    }

    /// Starts the API server again on the data in etcd. Does nothing if it is running.
    pub fn start_api_server(&self) -> Result<(), ApiServerError> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if running.is_some() {
            return Ok(());
        }
        let program = program("kube-apiserver");
        let log = self.folder.join("kube-apiserver.log");
        let arguments = self.arguments();
        let started = self.namespace.run(|| Leash::start(&program, &arguments, &log))?;
        let leash = running
            .insert(started.map_err(|source| ApiServerError::Start { program: "kube-apiserver", source })?);
        let ready: &[&str] = match self.options.slices {
            Slices::Served => &READY_WITH_SLICES,
            Slices::NotServed => &READY_WITHOUT_SLICES,
        };
        let is_ready = || ready.iter().all(|path| self.get(path).is_ok());
        wait_for("kube-apiserver", leash, is_ready)
    }

    /// Kills the API server; its data stays in etcd.
    pub fn stop_api_server(&self) {
        drop(self.running.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Compacts etcd to the current revision, so that no watch can resume from an older one.
    pub fn compact(&self) -> Result<(), ApiServerError> {
        let post = |path, body: Value| {
            let answer = self.namespace.run(|| requests::plain(ETCD, path, &body))?;
            answer.map_err(|source| ApiServerError::Request { receiver: "etcd", source })
        };
        // The key does not exist: only the revision in the header of the response is needed.
        let answer = post("/v3/kv/range", json!({ "key": "eA==" }))?;
        let revision = answer["header"]["revision"].clone();
        post("/v3/kv/compaction", json!({ "revision": revision, "physical": true })).map(drop)
    }

    fn write_files(&self) -> Result<(), ApiServerError> {
        let tokens: String = [User::Admin, User::KubeProxy, User::Stranger].map(User::line).concat();
        let (certificate, key) = self.authority.server(&[ADDRESS.into(), Ipv4Addr::LOCALHOST.into()])?;
        let account = rcgen::KeyPair::generate()?;
        let files = [
            ("tokens.csv", tokens),
            ("ca.crt", self.authority.pem()),
            ("server.crt", certificate),
            ("server.key", key),
            ("account.key", account.serialize_pem()),
            ("account.pub", account.public_key_pem()),
        ];
        files.iter().try_for_each(|(name, text)| write(&self.folder.join(name), text.as_bytes()))
    }

    fn arguments(&self) -> Vec<String> {
        let file = |name: &str| self.folder.join(name).display().to_string();
        let mode = match self.options.authorization {
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
            "--max-requests-inflight=4000".into(),
            "--max-mutating-requests-inflight=2000".into(),
        ];
        if self.options.slices == Slices::NotServed {
            arguments.push("--runtime-config=discovery.k8s.io/v1=false".into());
        }
        arguments.extend(self.options.flags.iter().cloned());
        arguments
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.stop_api_server();
        self.etcd.end();
    }
}

/// A kubeconfig in its JSON form, which is YAML too.
pub fn kubeconfig_text(server: &str, ca_file: &Path, user: &Value) -> String {
    let config = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "test",
        "clusters": [{ "name": "test", "cluster": { "server": server, "certificate-authority": ca_file } }],
        "users": [{ "name": "test", "user": user }],
        "contexts": [{ "name": "test", "context": { "cluster": "test", "user": "test" } }],
    });
    config.to_string()
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

fn new_folder() -> Result<PathBuf, ApiServerError> {
    let folder = tempfile::Builder::new().prefix("ferrule-api-server-").tempdir();
    let folder = folder.map_err(|source| ApiServerError::Write { path: std::env::temp_dir(), source })?;
    // The leash of etcd removes it, even if this process is killed.
    Ok(folder.keep())
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), ApiServerError> {
    fs::write(path, bytes).map_err(|source| ApiServerError::Write { path: path.into(), source })
}

impl ApiServerError {
    /// The message with its causes, in one line.
    pub fn with_sources(&self) -> String {
        causes::with_sources(self)
    }
}
