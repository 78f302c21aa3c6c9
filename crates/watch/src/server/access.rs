//! The API server's address and our credentials.
//!
//! Every source is turned into a kubeconfig, in memory if there is no file, so that the code behind it has one case. The
//! kubeconfig is read once; the files it names, such as certificates, for each [connection](super::connector).

use std::env;
use std::path::{Path, PathBuf};

use http::HeaderValue;
use kube::config::{AuthInfo, Cluster, Config, Context, KubeConfigOptions, Kubeconfig, KubeconfigError};
use kube::config::{NamedAuthInfo, NamedCluster, NamedContext};
use secrecy::{ExposeSecret as _, SecretString};
use tracing::{error, info};

use super::error::{with_causes, without_values};
use super::{SecretUrl, StartError};

const CA_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";
const TOKEN_FILE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/token";

/// Where address and credentials come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApiAccess {
    /// The pod's service account.
    InCluster,
    /// A kubeconfig file.
    Kubeconfig {
        /// Path of the file.
        path: PathBuf,
        /// A URL that replaces the one in the file.
        master: Option<SecretUrl>,
    },
    /// A URL without credentials.
    Master {
        /// Given on the command line.
        url: SecretUrl,
    },
}

impl ApiAccess {
    /// All files it depends on, including those the kubeconfig names.
    pub fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::InCluster => [CA_FILE, TOKEN_FILE].map(PathBuf::from).to_vec(),
            Self::Kubeconfig { path, .. } => {
                let named = Kubeconfig::read_from(path).map(|kubeconfig| files_named_in(&kubeconfig));
                [vec![path.clone()], named.unwrap_or_default()].concat()
            }
            Self::Master { .. } => Vec::new(),
        }
    }
}

fn files_named_in(kubeconfig: &Kubeconfig) -> Vec<PathBuf> {
    let clusters = kubeconfig.clusters.iter().filter_map(|named| named.cluster.as_ref());
    let users = kubeconfig.auth_infos.iter().filter_map(|named| named.auth_info.as_ref());
    let user_files = users.flat_map(|user| [&user.client_certificate, &user.client_key, &user.token_file]);
    let cluster_files = clusters.map(|cluster| &cluster.certificate_authority);
    cluster_files.chain(user_files).flatten().map(PathBuf::from).collect()
}

/// The `User-Agent` header, in kube-proxy's form: `kube-proxy/v1.37.1 (linux/amd64) ferrule/0.1.0`.
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

/// A kubeconfig that was read, and its origin for messages.
#[derive(Clone, Debug)]
pub(super) struct Access {
    /// URLs in it carry no secrets; `server` and `proxy` have those.
    kubeconfig: Kubeconfig,
    server: SecretUrl,
    proxy: Option<SecretUrl>,
    origin: Origin,
}

#[derive(Clone, Debug)]
enum Origin {
    File(PathBuf),
    ServiceAccount,
    Url,
}

impl Access {
    pub(super) fn read(access: &ApiAccess) -> Result<Self, StartError> {
        match access {
            ApiAccess::InCluster => in_cluster(),
            ApiAccess::Kubeconfig { path, master } => from_file(path, master.as_ref()),
            ApiAccess::Master { url } => {
                let server = url.clone().with_scheme(false);
                let cluster = Cluster { server: Some(server.shown().into()), ..Cluster::default() };
                let mut user = AuthInfo::default();
                server.authenticate(&mut user);
                Ok(Self {
                    kubeconfig: kubeconfig_from(cluster, user),
                    server,
                    proxy: None,
                    origin: Origin::Url,
                })
            }
        }
    }

    /// The client configuration, with the current certificates.
    pub(super) async fn config(&self) -> Result<Config, StartError> {
        let options = KubeConfigOptions::default();
        let config = Config::from_custom_kubeconfig(self.kubeconfig.clone(), &options).await;
        config.map_err(|error| self.start_error(&error))
    }

    /// The proxy named in the kubeconfig. Does not consult the environment.
    pub(super) fn proxy_url(&self) -> Option<&SecretUrl> {
        self.proxy.as_ref()
    }

    fn start_error(&self, error: &(dyn std::error::Error + 'static)) -> StartError {
        let problem = with_causes(error);
        match &self.origin {
            Origin::File(path) => StartError::Kubeconfig { path: path.clone(), problem },
            Origin::ServiceAccount => StartError::InCluster { problem },
            Origin::Url => StartError::Address { url: self.server.clone(), problem },
        }
    }

    /// The API server's address as configured.
    pub(super) fn server(&self) -> &SecretUrl {
        &self.server
    }
}

fn from_file(path: &Path, master: Option<&SecretUrl>) -> Result<Access, StartError> {
    let unusable = |problem| StartError::Kubeconfig { path: path.to_path_buf(), problem };
    let mut kubeconfig = Kubeconfig::read_from(path).map_err(|error| match &error {
        KubeconfigError::ReadConfig(source, _) => unusable(source.to_string()),
        _ => unusable(without_values(&with_causes(&error))),
    })?;
    let Some(context) = current_context(&kubeconfig) else {
        return Err(unusable(
            "no current-context, or it names none of the contexts; is this the right file?".into(),
        ));
    };
    let mut clusters = kubeconfig.clusters.iter_mut().filter(|named| named.name == context.cluster);
    let Some(cluster) = clusters.next().and_then(|named| named.cluster.as_mut()) else {
        return Err(unusable(format!("it has no cluster \"{}\"", context.cluster.escape_debug())));
    };
    let given = cluster.server.take().map(|url| SecretUrl::new(&url));
    let secure = cluster.certificate_authority.is_some() || cluster.certificate_authority_data.is_some();
    let server = master.filter(|url| !url.shown().is_empty()).cloned().or(given);
    let Some(server) = server.map(|url| url.with_scheme(secure)) else {
        return Err(unusable(format!("its cluster \"{}\" has no server", context.cluster.escape_debug())));
    };
    cluster.server = Some(server.shown().into());
    let proxy = cluster.proxy_url.take().filter(|url| !url.is_empty()).map(|url| SecretUrl::new(&url));
    let users = kubeconfig.auth_infos.iter_mut().filter(|named| Some(&named.name) == context.user.as_ref());
    for user in users.filter_map(|named| named.auth_info.as_mut()) {
        server.authenticate(user);
        if let Some(problem) = user.token.as_ref().and_then(token_problem) {
            return Err(unusable(format!("the token of its user \"{}\" {problem}", user_name(&context))));
        }
    }
    Ok(Access { kubeconfig, server, proxy, origin: Origin::File(path.to_path_buf()) })
}

fn current_context(kubeconfig: &Kubeconfig) -> Option<Context> {
    let current = kubeconfig.current_context.as_ref()?;
    kubeconfig.contexts.iter().find(|named| &named.name == current)?.context.clone()
}

fn user_name(context: &Context) -> String {
    context.user.as_deref().unwrap_or_default().escape_debug().to_string()
}

/// Why a token cannot be sent. The client library panics on such tokens.
fn token_problem(token: &SecretString) -> Option<&'static str> {
    let token = token.expose_secret();
    if token.is_empty() {
        return Some("is empty");
    }
    let is_sendable = HeaderValue::try_from(format!("Bearer {token}")).is_ok();
    (!is_sendable).then_some("has a line end or another character that no header may have")
}

/// Uses the service account that Kubernetes mounts into every pod.
fn in_cluster() -> Result<Access, StartError> {
    let variable = |name: &str| {
        let value = env::var(name).ok().filter(|value| !value.is_empty());
        value.ok_or_else(|| StartError::InCluster { problem: format!("the environment has no {name}") })
    };
    let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let readable = std::fs::read(CA_FILE);
    if let Err(err) = &readable {
        error!(%err, file = CA_FILE, "Expected to load root CA config, using the system's instead");
    }
    let server = SecretUrl::new(&format!("https://{host}:{port}"));
    let cluster = Cluster {
        server: Some(server.shown().into()),
        certificate_authority: readable.is_ok().then(|| CA_FILE.to_owned()),
        ..Cluster::default()
    };
    let user = AuthInfo { token_file: Some(TOKEN_FILE.to_owned()), ..AuthInfo::default() };
    info!("Neither kubeconfig file nor master URL was specified, falling back to in-cluster config");
    Ok(Access {
        kubeconfig: kubeconfig_from(cluster, user),
        server,
        proxy: None,
        origin: Origin::ServiceAccount,
    })
}

fn kubeconfig_from(cluster: Cluster, user: AuthInfo) -> Kubeconfig {
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
