//! A bearer token in a file that is rotated while we run.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use http::HeaderValue;
use rustix::fs::{Mode, OFlags, open};

/// No token is nearly as long: a server takes some KiB of headers.
const MAX_BYTES: u64 = 1 << 20;

/// A token file. It is read for every request, so a rotated token is used at once; there are few requests.
#[derive(Debug)]
pub(super) struct TokenFile {
    path: PathBuf,
    /// Used while the file is being replaced.
    last: Mutex<Option<HeaderValue>>,
}

impl TokenFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, last: Mutex::new(None) }
    }

    /// The `Authorization` header. Fails only if the file has never been readable.
    pub(super) fn header(&self) -> Result<HeaderValue, String> {
        let read = self.read();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        match (read, &*last) {
            (Ok(header), _) => Ok(last.insert(header).clone()),
            (Err(_), Some(header)) => Ok(header.clone()),
            (Err(problem), None) => Err(problem),
        }
    }

    fn read(&self) -> Result<HeaderValue, String> {
        let path = self.path.display();
        let text = read_text(&self.path).map_err(|error| format!("the token file {path}: {error}"))?;
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

/// Opening a pipe would wait for a writer, and a device may have no end.
fn read_text(path: &Path) -> io::Result<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut text = String::new();
    if file.take(MAX_BYTES + 1).read_to_string(&mut text)? as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it is larger than {MAX_BYTES} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{CWD, FileType, mknodat};

    use super::*;

    type Put = fn(&Path);

    const UNUSABLE: [(&str, Put); 5] = [
        ("not a regular file", |path| {
            mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe");
        }),
        ("not a regular file", |path| symlink("/dev/zero", path).expect("a link")),
        ("not a regular file", |path| fs::create_dir(path).expect("a folder")),
        ("larger than 1048576 bytes", |path| {
            File::create(path).and_then(|file| file.set_len(1 << 40)).expect("a sparse file");
        }),
        ("is empty", |path| fs::write(path, "\n").expect("a file")),
    ];

    #[test]
    fn what_is_no_token_file_is_refused_at_once_and_the_last_token_stays() {
        for (nth, (words, put)) in UNUSABLE.into_iter().enumerate() {
            let folder = tempfile::tempdir().expect("a folder");
            let path = folder.path().join("token");
            put(&path);
            let problem = TokenFile::new(path.clone()).header().expect_err("no token");
            assert!(problem.contains(words), "{nth}: {problem}");
            let elsewhere = folder.path().join("elsewhere");
            fs::rename(&path, &elsewhere).expect("renamed");
            fs::write(&path, "one\n").expect("a token");
            let file = TokenFile::new(path.clone());
            assert_eq!(file.header().expect("a token"), "Bearer one");
            fs::remove_file(&path).expect("removed");
            fs::rename(&elsewhere, &path).expect("renamed");
            assert_eq!(file.header().expect("the last token"), "Bearer one", "{nth}");
        }
    }
}
