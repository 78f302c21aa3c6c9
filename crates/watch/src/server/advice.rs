//! Advice for the operator about the most frequent failures.

use std::error::Error;
use std::io;
use std::iter;

use kube::client::AuthError;
use rustls::{AlertDescription, CertificateError, Error as TlsError, PeerIncompatible};

/// The innermost cause of a failure, and advice to append to it.
pub(super) struct Explained {
    pub cause: String,
    /// Empty, or starts with `; `.
    pub advice: String,
}

pub(super) fn on_transport(error: &(dyn Error + 'static)) -> Explained {
    for cause in causes(error) {
        let advice = match (cause.downcast_ref::<TlsError>(), cause.downcast_ref::<io::Error>()) {
            (Some(tls), _) => on_tls(tls),
            (_, Some(system)) => on_system(system),
            _ => None,
        };
        if let Some(advice) = advice {
            return Explained { cause: innermost(error), advice: format!("; {advice}") };
        }
    }
    Explained { cause: innermost(error), advice: String::new() }
}

/// Advice about an error response, or an empty string.
pub(super) fn on_status(status: u16, message: &str) -> &'static str {
    match status {
        401 => "; are the token or client certificate still valid, and of this cluster?",
        403 => "; does the user have the ClusterRole system:node-proxier?",
        404 if !message.contains("not found") => "; does this API server have that kind of object?",
        _ => "",
    }
}

/// An error and its causes, including those wrapped in an I/O error.
pub(super) fn causes<'a>(
    error: &'a (dyn Error + 'static),
) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    iter::successors(Some(error), |error: &&'a (dyn Error + 'static)| {
        let error: &'a (dyn Error + 'static) = *error;
        let inside = error.downcast_ref::<io::Error>().and_then(io::Error::get_ref);
        let next = inside.map(|inside| inside as &(dyn Error + 'static)).or_else(|| error.source());
        // The cause of this one quotes the output of a credential plugin, which holds a token.
        next.filter(|_| !matches!(error.downcast_ref(), Some(AuthError::AuthExecParse(_))))
    })
}

/// The message of an error, without the output of a credential plugin, which may hold a token.
pub(super) fn without_secrets(error: &(dyn Error + 'static)) -> String {
    // The message of this one repeats its cause.
    if matches!(error.downcast_ref(), Some(kube::Error::Auth(_))) {
        return "the credentials cannot be used".into();
    }
    match error.downcast_ref::<AuthError>() {
        Some(AuthError::AuthExecRun { out, .. }) => {
            format!("the credential plugin failed with {}; run it by hand to see what it says", out.status)
        }
        Some(AuthError::AuthExecParse(_) | AuthError::AuthExecSerialize(_)) => {
            "the credential plugin printed no ExecCredential".into()
        }
        _ => error.to_string(),
    }
}

fn innermost(error: &(dyn Error + 'static)) -> String {
    // The library's own words for this end with a link to its manual.
    if causes(error).any(|cause| cause.to_string().contains("without sending TLS close_notify")) {
        return "the connection was cut off".into();
    }
    let last = causes(error).last().map(without_secrets).unwrap_or_default();
    last.lines().collect::<Vec<_>>().join(" ")
}

fn on_tls(error: &TlsError) -> Option<&'static str> {
    match error {
        TlsError::InvalidCertificate(problem) => Some(on_certificate(problem)),
        TlsError::AlertReceived(
            AlertDescription::CertificateExpired
            | AlertDescription::BadCertificate
            | AlertDescription::CertificateUnknown
            | AlertDescription::UnknownCA
            | AlertDescription::CertificateRequired,
        ) => Some("the API server does not accept our client certificate; has it expired?"),
        TlsError::AlertReceived(AlertDescription::ProtocolVersion)
        | TlsError::PeerIncompatible(
            PeerIncompatible::ServerDoesNotSupportTls12Or13
            | PeerIncompatible::ServerTlsVersionIsDisabledByOurConfig,
        ) => Some("the API server speaks neither TLS 1.2 nor TLS 1.3; is something else in its place?"),
        TlsError::InvalidMessage(_) => Some("is this an https address?"),
        _ => None,
    }
}

fn on_certificate(problem: &CertificateError) -> &'static str {
    match problem {
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "the API server's certificate is not signed by the certificate-authority we were given; is it of this cluster?"
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "the API server's certificate has expired, or this machine's clock is wrong"
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "the API server's certificate is not valid yet, or this machine's clock is wrong"
        }
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            "the API server's certificate is for another name; is the address right?"
        }
        _ => "the API server's certificate cannot be used",
    }
}

fn on_system(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            Some("nothing listens there; is the API server running and its address right?")
        }
        io::ErrorKind::TimedOut | io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => {
            Some("is the address right, and is there a route to it from this node?")
        }
        // Errors of the resolver have no `ErrorKind`.
        _ if error.to_string().contains("failed to lookup address") => {
            Some("is the host name right, and does this node's DNS work without the cluster's?")
        }
        _ => None,
    }
}
