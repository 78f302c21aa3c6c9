//! The HTTP client: TLS, proxies, keepalive, and one HTTP/2 connection for all requests.
//!
//! Credentials and TLS settings come from the kube crate, except token files: see [`super::token`].

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
use super::error::with_causes;
use super::expected_panics;
use super::token::TokenFile;
use super::{ApiError, SecretUrl, StartError};

/// Adds credentials and sends a request; its URI must be absolute.
pub(super) type HttpService = BoxCloneSyncService<Request<Full<Bytes>>, Response<Incoming>, BoxError>;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Kube-proxy's values: a silent server is pinged after the interval and must answer within the timeout.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(15);

/// An HTTP client with the credentials it was built from.
#[derive(Clone, Debug)]
pub(super) struct HttpClient {
    pub service: HttpService,
    pub token: Option<std::sync::Arc<TokenFile>>,
    /// The API server's address, without a slash at the end.
    pub base: String,
}

/// Reads certificates, runs credential plugins and builds a client from them. Does not connect.
pub(super) async fn build_client(access: &Access) -> Result<HttpClient, StartError> {
    let mut config = access.config().await?;
    let base = config.cluster_url.to_string().trim_end_matches('/').to_string();
    check_url(&config.cluster_url)?;
    // The file takes precedence over an inline token, as for kube-proxy.
    let token = config.auth_info.token_file.take().map(|path| TokenFile::new(path.into()));
    if token.is_some() {
        config.auth_info.token = None;
    }
    let start_error = |problem| StartError::Connection { url: base.clone(), problem };
    if let Some(problem) = token.as_ref().and_then(|token| token.header().err()) {
        return Err(start_error(problem));
    }
    let proxy = choose_proxy(access, &config.cluster_url).map_err(start_error)?;
    let service = http_service(&config, proxy).map_err(|error| {
        let plugin = config.auth_info.exec.as_ref().and_then(|plugin| plugin.command.as_deref());
        let plugin = plugin.map(|command| format!("; the kubeconfig's exec plugin is {command}"));
        start_error(with_causes(&*error) + &plugin.unwrap_or_default())
    })?;
    Ok(HttpClient { service, token: token.map(std::sync::Arc::new), base })
}

fn check_url(url: &Uri) -> Result<(), StartError> {
    let problem = match (url.scheme_str(), url.host()) {
        (Some("http" | "https"), Some(_)) => return Ok(()),
        (Some("http" | "https"), None) => "it has no host",
        _ => "it begins neither with https:// nor with http://",
    };
    Err(StartError::Address { url: SecretUrl::new(&url.to_string()), problem: problem.into() })
}

/// The HTTP or SOCKS proxy in front of the API server.
enum Proxy {
    None,
    Http(Uri, Option<HeaderValue>),
    Socks(Uri),
}

/// The kubeconfig's proxy, else the environment's unless it exempts the server.
fn choose_proxy(access: &Access, server: &Uri) -> Result<Proxy, String> {
    let host = server.host().unwrap_or_default();
    let matcher = match access.proxy_url() {
        Some(url) => Matcher::builder().all(url.exposed().expose_secret()).build(),
        // Go's client does not use the environment's proxy for loopback addresses.
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

fn http_service(config: &Config, proxy: Proxy) -> Result<HttpService, Box<dyn Error + Send + Sync>> {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(CONNECT_TIMEOUT));
    tcp.set_keepalive(Some(KEEPALIVE_INTERVAL));
    tcp.set_keepalive_interval(Some(KEEPALIVE_TIMEOUT));
    tcp.set_keepalive_retries(Some(3));
    match proxy {
        Proxy::None => with_tls(config, tcp),
        Proxy::Http(uri, None) => with_tls(config, Tunnel::new(uri, tcp)),
        Proxy::Http(uri, Some(credentials)) => with_tls(config, Tunnel::new(uri, tcp).with_auth(credentials)),
        Proxy::Socks(uri) => with_tls(config, SocksV5::new(uri, tcp)),
    }
}

/// Adds TLS unless the URL is plain http.
fn with_tls<C>(config: &Config, connector: C) -> Result<HttpService, Box<dyn Error + Send + Sync>>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Connection + Unpin + Send + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    if config.cluster_url.scheme_str() == Some("http") {
        return with_credentials(config, connector);
    }
    let mut builder =
        HttpsConnectorBuilder::new().with_tls_config(config.rustls_client_config()?).https_only();
    if let Some(name) = config.tls_server_name.clone() {
        builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name.try_into()?));
    }
    with_credentials(config, builder.enable_http1().enable_http2().wrap_connector(connector))
}

/// Adds credentials and extra headers.
fn with_credentials<C>(config: &Config, connector: C) -> Result<HttpService, Box<dyn Error + Send + Sync>>
where
    C: Service<Uri> + Clone + Send + Sync + 'static,
    C::Response: Read + Write + Connection + Unpin + Send + 'static,
    C::Future: Send + Unpin + 'static,
    C::Error: Into<BoxError>,
{
    let client = Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .pool_timer(TokioTimer::new())
        .http2_keep_alive_interval(KEEPALIVE_INTERVAL)
        .http2_keep_alive_timeout(KEEPALIVE_TIMEOUT)
        .http2_keep_alive_while_idle(true)
        .build(connector);
    let service = ServiceBuilder::new()
        .layer(config.extra_headers_layer()?)
        .option_layer(auth_layer(config)?)
        .map_err(BoxError::from)
        .service(client);
    Ok(BoxCloneSyncService::new(service))
}

/// The library panics on a token that no header can hold, which a credential plugin may print. That must not end the
/// program.
fn auth_layer(config: &Config) -> Result<Option<AuthLayer>, Box<dyn Error + Send + Sync>> {
    let layer = expected_panics::catch(|| config.auth_layer());
    Ok(layer.map_err(|_| "the token has a line end or another character that no header may have")??)
}

/// Whether an established connection broke, as opposed to one that could not be made.
pub(super) fn is_connection_broken(error: &BoxError) -> bool {
    error.downcast_ref::<legacy::Error>().is_some_and(|error| !error.is_connect())
}

/// Whether the server ended the connection with a TLS alert, as it does when it rejects our certificate.
pub(super) fn is_tls_alert(error: &(dyn Error + 'static)) -> bool {
    causes(error).any(|cause| matches!(cause.downcast_ref(), Some(rustls::Error::AlertReceived(_))))
}

/// A client that cannot be rebuilt, reported as a failure of the request that needed it.
pub(super) fn as_api_error(what: &str, error: &StartError) -> ApiError {
    ApiError::Transport { what: what.into(), cause: error.to_string(), advice: String::new() }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn an_alert_is_found_at_any_depth() {
        let alert = || rustls::Error::AlertReceived(rustls::AlertDescription::CertificateRequired);
        assert!(is_tls_alert(&alert()));
        let read = || io::Error::new(io::ErrorKind::InvalidData, alert());
        assert!(is_tls_alert(&read()));
        assert!(is_tls_alert(&io::Error::other(read())));
        assert!(!is_tls_alert(&io::Error::from(io::ErrorKind::ConnectionReset)));
        let ours = rustls::Error::NoApplicationProtocol;
        assert!(!is_tls_alert(&io::Error::new(io::ErrorKind::InvalidData, ours)));
    }
}
