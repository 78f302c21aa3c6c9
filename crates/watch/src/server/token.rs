//! A bearer token in a file that somebody rotates.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use http::HeaderValue;

/// A token file. It is read for every request: there are few, and a rotated token counts at once.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    /// For the moments in which the file is being replaced.
    last: Mutex<Option<HeaderValue>>,
}

impl TokenFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, last: Mutex::new(None) }
    }

    /// The header that proves who we are; if the file cannot be read and never could, what is wrong.
    pub(super) fn header(&self) -> Result<HeaderValue, String> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match (self.read(), &*last) {
            (Ok(header), _) => Ok(last.insert(header).clone()),
            (Err(_), Some(header)) => Ok(header.clone()),
            (Err(problem), None) => Err(problem),
        }
    }

    fn read(&self) -> Result<HeaderValue, String> {
        let path = self.path.display();
        let text =
            fs::read_to_string(&self.path).map_err(|error| format!("the token file {path}: {error}"))?;
        let token = text.trim();
        if token.is_empty() {
            return Err(format!("the token file {path} is empty"));
        }
        let mut header = HeaderValue::try_from(format!("Bearer {token}"))
            .map_err(|_| format!("the token file {path} holds no token"))?;
        header.set_sensitive(true);
        Ok(header)
    }
}
