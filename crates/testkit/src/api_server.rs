//! A real API server for tests: etcd and kube-apiserver in a network namespace of their own, and what talks to them.
//!
//! Made for clients: no kubelet, controller or scheduler runs, so objects stay as tests write them. [`ApiServer::join`]
//! connects another namespace to it. Nothing is left behind, however the test ends: both programs are on a leash.
//! Call [`or_skip`] first: not every machine has the programs, which `scripts/cluster-build` builds.

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

/// Where the API server is, for everybody who [joined](ApiServer::join).
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 31, 0, 1);
const PORT: u16 = 6443;
/// Where its store is, for whoever is in its own namespace: plain HTTP.
pub const ETCD: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2379);

/// The API server says that it is ready before it has written the objects that are its own.
const OWN_OBJECTS: [&str; 4] = [
    "/readyz",
    "/api/v1/namespaces/default/services/kubernetes",
    "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
    "/apis/networking.k8s.io/v1/servicecidrs/kubernetes",
];

/// It takes five seconds on a quiet machine.
const PATIENCE: Duration = Duration::from_mins(2);
const LOOK_AGAIN: Duration = Duration::from_millis(25);

/// How the API server is started.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether everybody may do everything, or only what the bootstrap roles allow.
    pub authorization: Authorization,
    /// Flags beside the usual ones.
    pub flags: Vec<String>,
}

/// Who may do what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Authorization {
    /// The roles that every cluster has from the start.
    #[default]
    Rbac,
    /// Everybody who is known may do everything.
    AlwaysAllow,
}

/// Whom the API server knows by a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// May do everything.
    Admin,
    /// `system:kube-proxy`, who has the role `system:node-proxier`.
    KubeProxy,
    /// Known, but without any role.
    Stranger,
}

/// A running API server. It ends, with all it kept, when it is dropped or when the process is gone.
#[derive(Debug)]
pub struct ApiServer {
    // Before etcd, which removes the folder when it ends.
    running: Mutex<Option<Leash>>,
    etcd: Leash,
    namespace: Namespace,
    folder: PathBuf,
    options: Options,
    authority: Authority,
    joined: AtomicU32,
}

/// What went wrong while the API server was started or used.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "each says itself what it is about")]
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
    #[error("asking {whom}")]
    Ask { whom: &'static str, source: io::Error },
    #[error(transparent)]
    Refused(#[from] Refused),
}

impl User {
    /// What it proves itself with.
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
    /// Starts both programs; they answer when this returns.
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

    /// One for all tests of a program, with the usual options, started by whoever asks first.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<ApiServer> = OnceLock::new();
        SHARED.get_or_init(|| match Self::start(Options::default()) {
            Ok(server) => server,
            #[expect(clippy::panic, reason = "for tests, which cannot go on")]
            Err(error) => panic!("{error}: {:?}", std::error::Error::source(&error)),
        })
    }

    /// Its namespace; what runs there reaches it too.
    pub fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// Its files. A test may write others there.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(ADDRESS.into(), PORT)
    }

    /// Its URL.
    pub fn url(&self) -> String {
        format!("https://{}", self.address())
    }

    /// The file with the certificate of the authority that signed its own.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.join("ca.crt")
    }

    /// The authority that signed its certificate, and whose client certificates it believes.
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

    /// Gives another namespace an interface, with an address of 172.31.0.0/16, by which it reaches the API server.
    pub fn join(&self, namespace: &Namespace, address: Ipv4Addr) -> Result<(), ApiServerError> {
        let port = format!("port{}", self.joined.fetch_add(1, Ordering::Relaxed));
        let cable = format!("link add {port} type veth peer name api0 netns {}\n", namespace.path());
        let plug = format!("link set {port} master cluster up\n");
        self.namespace.feed("ip", &["-batch", "-"], &(cable + &plug))?;
        let commands = format!("link set lo up\naddress add {address}/16 dev api0\nlink set api0 up\n");
        namespace.feed("ip", &["-batch", "-"], &commands)?;
        Ok(())
    }

    /// Starts the API server again on what etcd kept; does nothing if it runs.
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
        wait_for("kube-apiserver", leash, || OWN_OBJECTS.iter().all(|path| self.get(path).is_ok()))
    }

    /// Kills the API server; etcd keeps what it knew.
    pub fn stop_api_server(&self) {
        drop(self.running.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    /// Makes etcd forget all but the present, so that nobody can go on from a state of the past.
    pub fn compact(&self) -> Result<(), ApiServerError> {
        let ask = |path, body: Value| {
            let answer = self.namespace.run(|| requests::plain(ETCD, path, &body))?;
            answer.map_err(|source| ApiServerError::Ask { whom: "etcd", source })
        };
        // The key is one that nobody has: only the revision in the answer's header is wanted.
        let answer = ask("/v3/kv/range", json!({ "key": "eA==" }))?;
        let revision = answer["header"]["revision"].clone();
        ask("/v3/kv/compaction", json!({ "revision": revision, "physical": true })).map(drop)
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
        // Nothing here must survive the machine.
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

/// Looks again and again until a program answers, unless it ends before that.
fn wait_for(program: &'static str, leash: &Leash, is_ready: impl Fn() -> bool) -> Result<(), ApiServerError> {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if is_ready() {
            return Ok(());
        }
        if leash.ends_within(LOOK_AGAIN) {
            break;
        }
    }
    Err(ApiServerError::NotReady { program, log: leash.log_end() })
}

fn new_folder() -> Result<PathBuf, ApiServerError> {
    let folder = tempfile::Builder::new().prefix("ferrule-api-server-").tempdir();
    let folder = folder.map_err(|source| ApiServerError::Write { path: std::env::temp_dir(), source })?;
    // etcd's leash removes it, even if this process is killed.
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
