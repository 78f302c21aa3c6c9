//! A URL that may carry a password or, in its query, a token. Printing it shows neither.
//!
//! Metrics, messages and status pages use this type, so no caller has to remember to redact.

use std::fmt;

use kube::config::AuthInfo;
use secrecy::{ExposeSecret as _, SecretString};

/// A URL whose user information and query are never printed.
#[derive(Clone)]
pub struct SecretUrl {
    shown: String,
    user_info: Option<SecretString>,
    /// With the leading `?` or `#`.
    query: Option<SecretString>,
}

impl SecretUrl {
    /// Splits a URL; does not validate it.
    pub fn new(text: &str) -> Self {
        let (scheme, rest) = text.find("://").map_or(("", text), |at| text.split_at(at + "://".len()));
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        // The last `@` ends the user information; earlier ones are part of an unencoded password.
        let (user_info, host) = match authority.rsplit_once('@') {
            Some((user_info, host)) => (Some(user_info), host),
            None => (None, authority),
        };
        // An unencoded password with a slash in it: where it ends is unclear, so nothing is shown.
        if rest.contains('@') {
            return Self { shown: format!("{scheme}<hidden>"), user_info: None, query: Some(text.into()) };
        }
        let (path, query) = rest.split_at(rest.find(['?', '#']).unwrap_or(rest.len()));
        Self {
            shown: format!("{scheme}{host}{path}"),
            user_info: user_info.map(SecretString::from),
            query: Some(query).filter(|query| !query.is_empty()).map(SecretString::from),
        }
    }

    /// The URL without its secrets.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Adds a scheme if there is none: https if the server's certificate can be verified.
    #[must_use]
    pub(super) fn with_scheme(mut self, secure: bool) -> Self {
        if !self.shown.contains("://") {
            self.shown = format!("{}://{}", if secure { "https" } else { "http" }, self.shown);
        }
        self
    }

    /// The complete URL, to connect with.
    pub(super) fn exposed(&self) -> SecretString {
        let secret = |part: &Option<SecretString>| {
            part.as_ref().map_or(String::new(), |part| part.expose_secret().to_owned())
        };
        let (scheme, rest) =
            self.shown.find("://").map_or(("", &*self.shown), |at| self.shown.split_at(at + 3));
        let at = if self.user_info.is_some() { "@" } else { "" };
        format!("{scheme}{}{at}{rest}{}", secret(&self.user_info), secret(&self.query)).into()
    }

    /// Uses the user information for basic authentication unless there are other credentials, as Go's client does.
    pub(super) fn authenticate(&self, user: &mut AuthInfo) {
        let Some(user_info) = &self.user_info else { return };
        let has_others = user.token.is_some()
            || user.token_file.is_some()
            || user.username.is_some()
            || user.exec.is_some()
            || user.auth_provider.is_some();
        if has_others {
            return;
        }
        let (name, password) = match user_info.expose_secret().split_once(':') {
            Some((name, password)) => (percent_decoded(name), percent_decoded(password)),
            None => (percent_decoded(user_info.expose_secret()), String::new()),
        };
        user.username = Some(name);
        user.password = Some(password.into());
    }
}

/// Invalid escapes are kept as they are.
fn percent_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let encoded = (*first == b'%').then(|| after.get(..2)).flatten();
        let byte = encoded.and_then(|digits| u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok());
        (bytes, rest) = match byte {
            Some(byte) => ([bytes, vec![byte]].concat(), &after[2..]),
            None => ([bytes, vec![*first]].concat(), after),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

impl fmt::Display for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for SecretUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.shown, f)
    }
}

impl PartialEq for SecretUrl {
    fn eq(&self, other: &Self) -> bool {
        self.exposed().expose_secret() == other.exposed().expose_secret()
    }
}

impl Eq for SecretUrl {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_url_are_not_shown_however_it_is_printed() {
        let rows = [
            ("https://admin:hunter2@10.0.0.1:6443/base", "https://10.0.0.1:6443/base"),
            ("admin:hunter2@10.0.0.1:6443", "10.0.0.1:6443"),
            ("https://hunter2@[fd00::1]:6443", "https://[fd00::1]:6443"),
            ("https://a@b:hunter2@host/", "https://host/"),
            ("https://host/path?token=hunter2", "https://host/path"),
            ("https://host#hunter2", "https://host"),
            ("http://host", "http://host"),
            ("", ""),
        ];
        for (text, shown) in rows {
            let url = SecretUrl::new(text);
            assert_eq!(url.to_string(), shown, "{text}");
            assert!(!format!("{url:?} {url:#?} {url}").contains("hunter2"), "{text}");
            assert_eq!(url.exposed().expose_secret(), text, "nothing is lost");
        }
    }

    #[test]
    fn a_password_that_is_not_encoded_is_not_shown_either() {
        for text in [
            "https://admin:hun/ter2@host",
            "https://admin:hun#ter2@host",
            "https:/admin:hunter2@host",
            "a/b:ter2@c",
        ] {
            let shown = format!("{0} {0:?}", SecretUrl::new(text));
            assert!(!shown.contains("ter2") && !shown.contains("hun"), "{shown}");
        }
    }

    #[test]
    fn user_information_becomes_basic_authentication_unless_there_are_other_credentials() {
        let url = SecretUrl::new("https://ad%20min:p%40ss%zz@host");
        let mut user = AuthInfo::default();
        url.authenticate(&mut user);
        assert_eq!(user.username.as_deref(), Some("ad min"));
        assert_eq!(
            user.password.map(|password| password.expose_secret().to_owned()).as_deref(),
            Some("p@ss%zz")
        );
        let mut user = AuthInfo { token_file: Some("/token".into()), ..AuthInfo::default() };
        url.authenticate(&mut user);
        assert_eq!(user.username, None);
    }
}
