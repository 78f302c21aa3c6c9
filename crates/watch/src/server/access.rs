//! Where the API server's address and our credentials come from.
//!
//! All ways end in a kubeconfig, in memory where there is no file, so that there is one way on from here. What it names,
//! certificates say, is read again for each [connection](super::connector); the kubeconfig itself only once.

use std::env;
use std::path::{Path, PathBuf};

use kube::config::{AuthInfo, Cluster, Config, Context, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::config::{NamedAuthInfo, NamedCluster, NamedContext};
use tracing::{error, info};

use super::StartError;
use super::error::with_causes;

const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Where the API server's address and our credentials come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiAccess {
    /// The pod's service account.
    InCluster,
    /// A kubeconfig file.
    Kubeconfig {
        /// Its path.
        path: PathBuf,
        /// A URL that replaces the one in the file.
        master: Option<String>,
    },
    /// A URL without credentials.
    Master {
        /// The URL.
        url: String,
    },
}

/// How we introduce ourselves, in kube-proxy's form: `kube-proxy/v1.37.1 (linux/amd64) ferrule/0.1.0`.
pub fn user_agent(program: &str, kubernetes: &str) -> String {
    let architecture = match env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!(
        "{program}/{kubernetes} ({}/{architecture}) ferrule/{}",
        env::consts::OS,
        env!("CARGO_PKG_VERSION")
    )
}

/// A kubeconfig, read, and how it is called in messages.
#[derive(Clone, Debug)]
pub(super) struct Access {
    kubeconfig: Kubeconfig,
    origin: Origin,
}

#[derive(Clone, Debug)]
enum Origin {
    File(PathBuf),
    ServiceAccount,
    Url,
}

impl Access {
    /// Reads what there is to read once.
    pub(super) fn read(access: &ApiAccess) -> Result<Self, StartError> {
        match access {
            ApiAccess::InCluster => in_cluster(),
            ApiAccess::Kubeconfig { path, master } => from_file(path, master.as_deref()),
            ApiAccess::Master { url } => {
                let cluster = Cluster { server: Some(with_scheme(url, false)), ..Cluster::default() };
                Ok(Self { kubeconfig: of_parts(cluster, AuthInfo::default()), origin: Origin::Url })
            }
        }
    }

    /// The configuration of the client, with the certificates as they are now.
    pub(super) async fn config(&self) -> Result<Config, StartError> {
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(self.kubeconfig.clone(), &options).await;
        config.map_err(|error| self.refused(&error))
    }

    /// The proxy that the kubeconfig asks for; the environment's is not asked here.
    pub(super) fn proxy_url(&self) -> Option<&str> {
        self.cluster()?.proxy_url.as_deref().filter(|url| !url.is_empty())
    }

    fn cluster(&self) -> Option<&Cluster> {
        let wanted = self.cluster_name();
        self.kubeconfig.clusters.iter().find(|named| Some(&named.name) == wanted)?.cluster.as_ref()
    }

    fn cluster_name(&self) -> Option<&String> {
        let current = self.kubeconfig.current_context.as_ref()?;
        let context = self.kubeconfig.contexts.iter().find(|named| &named.name == current)?;
        context.context.as_ref().map(|context| &context.cluster)
    }

    fn refused(&self, error: &(dyn std::error::Error + 'static)) -> StartError {
        let problem = with_causes(error);
        match &self.origin {
            Origin::File(path) => StartError::Kubeconfig { path: path.clone(), problem },
            Origin::ServiceAccount => StartError::InCluster { problem },
            Origin::Url => StartError::Address { url: self.server(), problem },
        }
    }

    /// The API server's address, as it was given.
    pub(super) fn server(&self) -> String {
        self.cluster().and_then(|cluster| cluster.server.clone()).unwrap_or_default()
    }
}

fn from_file(path: &Path, master: Option<&str>) -> Result<Access, StartError> {
    let origin = Origin::File(path.to_path_buf());
    let unusable = |problem| StartError::Kubeconfig { path: path.to_path_buf(), problem };
    let kubeconfig = Kubeconfig::read_from(path).map_err(|error| match &error {
        KubeconfigError::ReadConfig(source, _) => unusable(source.to_string()),
        _ => unusable(with_causes(&error)),
    })?;
    let mut access = Access { kubeconfig, origin };
    let wanted = access.cluster_name().cloned();
    if wanted.is_none() {
        return Err(unusable(
            "no current-context, or it names none of the contexts; is this the right file?".into(),
        ));
    }
    for named in access.kubeconfig.clusters.iter_mut().filter(|named| Some(&named.name) == wanted.as_ref()) {
        if let Some(cluster) = &mut named.cluster {
            let given = master.filter(|url| !url.is_empty()).map(str::to_string).or(cluster.server.take());
            let secure =
                cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
            cluster.server = given.map(|url| with_scheme(&url, secure));
        }
    }
    Ok(access)
}

/// The service account that Kubernetes mounts into every pod.
fn in_cluster() -> Result<Access, StartError> {
    let variable = |name: &str| {
        let value = env::var(name).ok().filter(|value| !value.is_empty());
        value.ok_or_else(|| StartError::InCluster { problem: format!("the environment has no {name}") })
    };
    let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let authority = format!("{ACCOUNT}/ca.crt");
    let readable = std::fs::read(&authority);
    if let Err(err) = &readable {
        error!(%err, file = authority, "Expected to load root CA config, using the system's instead");
    }
    let cluster = Cluster {
        server: Some(format!("https://{host}:{port}")),
        certificate_authority: readable.is_ok().then_some(authority),
        ..Cluster::default()
    };
    let user = AuthInfo { token_file: Some(format!("{ACCOUNT}/token")), ..AuthInfo::default() };
    info!("Neither kubeconfig file nor master URL was specified, falling back to in-cluster config");
    Ok(Access { kubeconfig: of_parts(cluster, user), origin: Origin::ServiceAccount })
}

fn of_parts(cluster: Cluster, user: AuthInfo) -> Kubeconfig {
    let name = || "ferrule".to_string();
    let context = Context { cluster: name(), user: Some(name()), ..Context::default() };
    Kubeconfig {
        clusters: vec![NamedCluster { name: name(), cluster: Some(cluster), ..NamedCluster::default() }],
        auth_infos: vec![NamedAuthInfo { name: name(), auth_info: Some(user), ..NamedAuthInfo::default() }],
        contexts: vec![NamedContext { name: name(), context: Some(context), ..NamedContext::default() }],
        current_context: Some(name()),
        ..Kubeconfig::default()
    }
}

/// An address without a scheme is https if there is something to check certificates with.
fn with_scheme(url: &str, secure: bool) -> String {
    match (url.contains("://"), secure) {
        (true, _) => url.to_string(),
        (false, true) => format!("https://{url}"),
        (false, false) => format!("http://{url}"),
    }
}
