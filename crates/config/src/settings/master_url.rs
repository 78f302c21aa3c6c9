//! The value of `--master`, which may hold a password or a token: it is compared and handed on, never printed.

use std::fmt;

use secrecy::{ExposeSecret as _, SecretString};

/// The URL of the API server, as given. Whether it is a URL is for the client to say.
#[derive(Clone)]
pub struct MasterUrl(SecretString);

impl MasterUrl {
    pub(super) fn new(text: &str) -> Self {
        Self(text.into())
    }

    /// The whole URL with its secrets.
    pub fn exposed(&self) -> &str {
        self.0.expose_secret()
    }
}

impl fmt::Debug for MasterUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<hidden>")
    }
}

impl PartialEq for MasterUrl {
    fn eq(&self, other: &Self) -> bool {
        self.exposed() == other.exposed()
    }
}

impl Eq for MasterUrl {}
