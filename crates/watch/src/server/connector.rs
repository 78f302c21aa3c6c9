//! The HTTP client under everything: TLS, proxies, keepalive, and one HTTP/2 connection for all requests.
//!
//! Credentials and TLS settings are kube's reading of the kubeconfig. Token files are not: see [`super::token`].

use std::error::Error;
use std::time::Duration;

use http::{HeaderValue, Request, Response, Uri};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::rt::{Read, Write};
use hyper_rustls::{FixedServerNameResolver, HttpsConnectorBuilder};
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connection, HttpConnector};
use hyper_util::client::legacy::{self, Client};
use hyper_util::client::proxy::matcher::Matcher;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Config;
use kube::client::ConfigExt as _;
use kube::client::middleware::AuthLayer;
use secrecy::ExposeSecret as _;
use tower::util::BoxCloneSyncService;
use tower::{BoxError, Service, ServiceBuilder};

use super::access::Access;
use super::advice::causes;
use super::caught;
use super::error::with_causes;
use super::token::TokenFile;
use super::{ApiError, SecretUrl, StartError};

/// Sends a request with credentials; the address must be absolute.
pub(super) type HttpService = BoxCloneSyncService<Request<Full<Bytes>>, Response<Incoming>, BoxError>;

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(10);
/// A server that says nothing for this long is asked whether it is there, and has this long to answer; as kube-proxy.
const QUIET: Duration = Duration::from_secs(30);
const ANSWER: Duration = Duration::from_secs(15);

/// What requests are sent with.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    pub service: HttpService,
    pub token: Option<std::sync::Arc<TokenFile>>,
    /// The API server's address, without a slash at the end.
    pub base: String,
}

/// Reads certificates and runs plugins, and makes a client of them. Nothing is connected yet.
pub(super) async fn prepare(access: &Access) -> Result<Prepared, StartError> {
    let mut config = access.config().await?;
    let base = config.cluster_url.to_string().trim_end_matches('/').to_string();
    check(&config.cluster_url)?;
    // Where both are given the file counts, as for kube-proxy.
    let token = config.auth_info.token_file.take().map(|path| TokenFile::new(path.into()));
    if token.is_some() {
        config.auth_info.token = None;
    }
    let refused = |problem| StartError::Connection { url: base.clone(), problem };
    if let Some(problem) = token.as_ref().and_then(|token| token.header().err()) {
        return Err(refused(problem));
    }
    let proxy = proxy(access, &config.cluster_url).map_err(refused)?;
    let service = connected(&config, proxy).map_err(|error| {
        let plugin = config.auth_info.exec.as_ref().and_then(|plugin| plugin.command.as_deref());
        let plugin = plugin.map(|command| format!("; the kubeconfig's exec plugin is {command}"));
        refused(with_causes(&*error) + &plugin.unwrap_or_default())
    })?;
    Ok(Prepared { service, token: token.map(std::sync::Arc::new), base })
}

fn check(url: &Uri) -> Result<(), StartError> {
    let problem = match (url.scheme_str(), url.host()) {
        (Some("http" | "https"), Some(_)) => return Ok(()),
        (Some("http" | "https"), None) => "it has no host",
        _ => "it begins neither with https:// nor with http://",
    };
    Err(StartError::Address { url: SecretUrl::new(&url.to_string()), problem: problem.into() })
}

/// On the way to the API server.
enum Proxy {
    None,
    Http(Uri, Option<HeaderValue>),
    Socks(Uri),
}

/// The kubeconfig's proxy for everything, else the environment's for what it does not exempt.
fn proxy(access: &Access, server: &Uri) -> Result<Proxy, String> {
    let host = server.host().unwrap_or_default();
    let matcher = match access.proxy_url() {
        Some(url) => Matcher::builder().all(url.exposed().expose_secret()).build(),
        // Go's client never asks a proxy of the environment for this machine itself.
        None if host == "localhost" || host.starts_with("127.") || host == "[::1]" => return Ok(Proxy::None),
        None => Matcher::from_env(),
    };
    let Some(found) = matcher.intercept(server) else {
        return access
            .proxy_url()
            .map_or(Ok(Proxy::None), |url| Err(format!("proxy-url {url} is not a URL")));
    };
    match found.uri().scheme_str() {
        Some("http") => Ok(Proxy::Http(found.uri().clone(), found.basic_auth().cloned())),
        Some("socks5" | "socks5h") => Ok(Proxy::Socks(found.uri().clone())),
        _ => {
            let shown = SecretUrl::new(&found.uri().to_string());
            Err(format!("the proxy {shown} is neither http:// nor socks5://"))
        }
    }
}

fn connected(config: &Config, proxy: Proxy) -> Result<HttpService, Box<dyn Error + Send + Sync>> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_keepalive(Some(QUIET));
    tcp.set_keepalive_interval(Some(ANSWER));
    tcp.set_keepalive_retries(Some(3));
    match proxy {
        Proxy::None => secured(config, tcp),
        Proxy::Http(uri, None) => secured(config, Tunnel::new(uri, tcp)),
        Proxy::Http(uri, Some(credentials)) => secured(config, Tunnel::new(uri, tcp).with_auth(credentials)),
        Proxy::Socks(uri) => secured(config, SocksV5::new(uri, tcp)),
    }
}

/// TLS, where the address asks for it, around a way to connect.
fn secured<C>(config: &Config, way: C) -> Result<HttpService, Box<dyn Error + Send + Sync>>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Connection + Unpin + Send + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    if config.cluster_url.scheme_str() == Some("http") {
        return layered(config, way);
    }
    let mut builder =
        HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_only();
    if let Some(name) = config.tls_server_name.clone() {
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name.try_into()?));
    }
    layered(config, builder.enable_http1().enable_http2().wrap_connector(way))
}

/// Credentials and headers around a connection.
fn layered<C>(config: &Config, way: C) -> Result<HttpService, Box<dyn Error + Send + Sync>>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Connection + Unpin + Send + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    let client = Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(QUIET)
        .http2_keep_alive_timeout(ANSWER)
        .http2_keep_alive_while_idle(true)
        .build(way);
    let service = ServiceBuilder::new()
        .layer(config.extra_headers_layer()?)
        .option_layer(auth_layer(config)?)
        .map_err(BoxError::from)
        .service(client);
    Ok(BoxCloneSyncService::new(service))
}

/// The credentials. A token that no header can hold, which a plugin may print, makes the library panic: that is a plugin's
/// fault, and no reason to end.
fn auth_layer(config: &Config) -> Result<Option<AuthLayer>, Box<dyn Error + Send + Sync>> {
    let made = caught::catch(|| config.auth_layer());
    Ok(made.map_err(|_| "the token has a line end or another character that no header may have")??)
}

/// Whether there was a connection, and it broke.
pub(super) fn is_broken(error: &BoxError) -> bool {
    error.downcast_ref::<legacy::Error>().is_some_and(|error| !error.is_connect())
}

/// Whether the other side ended a connection with an alert, as it does if it does not like our certificate.
pub(super) fn is_refused_by_tls(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| matches!(cause.downcast_ref(), Some(rustls::Error::AlertReceived(_))))
}

/// What could not be prepared, for those who try again.
pub(super) fn as_api_error(what: &str, error: &StartError) -> ApiError {
    ApiError::Transport { what: what.into(), cause: error.to_string(), advice: String::new() }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn an_alert_is_found_wherever_it_is() {
        let alert = || rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired);
        assert!(is_refused_by_tls(&alert()));
        let read = || io::Error::new(io::ErrorKind::InvalidData, alert());
        assert!(is_refused_by_tls(&read()));
        assert!(is_refused_by_tls(&io::Error::other(read())));
        assert!(!is_refused_by_tls(&io::Error::from(io::ErrorKind::ConnectionReset)));
        let ours = rustls::Error::NoApplicationProtocol;
        assert!(!is_refused_by_tls(&io::Error::new(io::ErrorKind::InvalidData, ours)));
    }
}
