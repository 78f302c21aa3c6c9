//! A real API server for tests: etcd and kube-apiserver in a network namespace of their own.
//!
//! No kubelet, controller or scheduler runs, so objects stay as tests write them. [`ApiServer::join`] connects another
//! namespace to it. Nothing is left behind, however the test ends: both programs are on a leash. Call [`or_skip`] first:
//! not every machine has the programs, which `scripts/cluster-build` builds.
//!
//! In a virtual machine whose processor is imitated both programs are slow. There [`ApiServer::shared`] is one that runs on
//! the machine outside, if the variable `FERRULE_TEST_API_SERVER` names a folder with its `ca.crt`.

mod certificates;
mod connection;
mod leash;
mod objects;
mod processes;
mod programs;
mod requests;

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::{Value, json};

use crate::causes;
use crate::netns::{Namespace, NetError};
pub use certificates::{Authority, Validity};
pub use objects::{Objects, objects_of, objects_path};
use processes::Processes;
pub use programs::{or_skip, program};
use requests::Idle;
pub use requests::Refused;

/// The API server's address in every namespace that [joined](ApiServer::join).
pub const ADDRESS: Ipv4Addr = Ipv4Addr::new(172, 31, 0, 1);
const PORT: u16 = 6443;
/// The address of etcd in the API server's own namespace: plain HTTP.
pub const ETCD: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 2379);

/// Names the folder of a server that runs outside the virtual machine.
const OUTSIDE: &str = "FERRULE_TEST_API_SERVER";

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
    /// None if it runs outside the virtual machine.
    processes: Option<Processes>,
    namespace: Namespace,
    folder: PathBuf,
    /// The CA certificate.
    ca: String,
    idle: Idle,
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
    #[error("reading {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("the API server runs outside this virtual machine and cannot be controlled from here")]
    RunsOutside,
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
        let processes = Processes::start(&namespace, &folder, options)?;
        let ca = processes.authority().pem();
        let server = Self {
            processes: Some(processes),
            namespace,
            folder,
            ca,
            idle: Idle::default(),
            joined: AtomicU32::new(0),
        };
        server.start_api_server()?;
        Ok(server)
    }

    /// One that runs outside the virtual machine. The machine's network leads to it.
    fn outside(folder: PathBuf) -> Result<Self, ApiServerError> {
        let path = folder.join("ca.crt");
        let ca = fs::read_to_string(&path).map_err(|source| ApiServerError::Read { path, source })?;
        let namespace = Namespace::of_this_process()?;
        Ok(Self { processes: None, namespace, folder, ca, idle: Idle::default(), joined: AtomicU32::new(0) })
    }

    /// One server with default options for all tests of a binary, started on first use.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn shared() -> &'static Self {
        static SHARED: OnceLock<ApiServer> = OnceLock::new();
        let start = || match std::env::var_os(OUTSIDE) {
            Some(folder) => Self::outside(folder.into()),
            None => Self::start(Options::default()),
        };
        SHARED.get_or_init(|| match start() {
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
    pub fn authority(&self) -> Result<&Authority, ApiServerError> {
        Ok(self.processes()?.authority())
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
        // The cables of an earlier test program may not be gone yet where the bridge is not ours alone.
        let port = format!("p{}-{}", std::process::id(), self.joined.fetch_add(1, Ordering::Relaxed));
        let cable = format!("link add {port} type veth peer name api0 netns {}\n", namespace.path());
        let plug = format!("link set {port} master cluster up\n");
        self.namespace.feed("ip", &["-batch", "-"], &(cable + &plug))?;
        let commands = format!("link set lo up\naddress add {address}/16 dev api0\nlink set api0 up\n");
        namespace.feed("ip", &["-batch", "-"], &commands)?;
        Ok(())
    }

    /// Starts the API server again on the data in etcd. Does nothing if it is running.
    pub fn start_api_server(&self) -> Result<(), ApiServerError> {
        let is_served = |path: &str| self.get(path).is_ok();
        self.processes()?.start_api_server(&self.namespace, &self.folder, is_served)
    }

    /// Kills the API server; its data stays in etcd.
    pub fn stop_api_server(&self) {
        if let Some(processes) = &self.processes {
            processes.stop_api_server();
            self.idle.close();
        }
    }

    /// Compacts etcd to the current revision, so that no watch can resume from an older one.
    pub fn compact(&self) -> Result<(), ApiServerError> {
        self.processes()?;
        let post = |path, body: Value| {
            let answer = self.namespace.run(|| requests::plain(ETCD, path, &body))?;
            answer.map_err(|source| ApiServerError::Request { receiver: "etcd", source })
        };
        // The key does not exist: only the revision in the header of the response is needed.
        let answer = post("/v3/kv/range", json!({ "key": "eA==" }))?;
        let revision = answer["header"]["revision"].clone();
        post("/v3/kv/compaction", json!({ "revision": revision, "physical": true })).map(drop)
    }

    fn processes(&self) -> Result<&Processes, ApiServerError> {
        self.processes.as_ref().ok_or(ApiServerError::RunsOutside)
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
