//! Which events show: `-v` and `--vmodule`.
//!
//! As in klog, a file's pattern can only let more through than `-v` does.

use std::sync::RwLock;
use std::sync::atomic::{AtomicU32, Ordering};

use ferrule_config::settings::LoggingSettings;
use tracing::{Level, Metadata};

/// The verbosity in force.
#[derive(Debug, Default)]
pub struct Verbosity {
    general: AtomicU32,
    by_file: RwLock<Vec<(String, u32)>>,
}

impl Verbosity {
    /// Applies new settings.
    pub fn configure(&self, settings: &LoggingSettings) {
        self.set(settings.verbosity);
        if let Ok(mut by_file) = self.by_file.write() {
            by_file.clone_from(&settings.vmodule);
        }
    }

    /// Sets the general verbosity.
    pub fn set(&self, verbosity: u32) {
        self.general.store(verbosity, Ordering::Relaxed);
    }

    /// Whether an event of this verbosity, written in this source file, shows.
    pub fn shows(&self, verbosity: u32, file: &str) -> bool {
        verbosity <= self.general.load(Ordering::Relaxed) || verbosity <= self.of_file(file)
    }

    fn of_file(&self, file: &str) -> u32 {
        let Ok(by_file) = self.by_file.read() else { return 0 };
        by_file.iter().find(|(pattern, _)| matches_file(pattern, file)).map_or(0, |(_, verbosity)| *verbosity)
    }
}

/// The verbosity of an event by its level. Libraries log every request and frame, so theirs is the highest.
pub fn of_level(metadata: &Metadata<'_>) -> u32 {
    let is_our_own = metadata.target().starts_with("ferrule");
    match *metadata.level() {
        Level::ERROR | Level::WARN | Level::INFO => 0,
        Level::DEBUG if is_our_own => 2,
        Level::TRACE if is_our_own => 4,
        Level::DEBUG => 8,
        Level::TRACE => 10,
    }
}

/// A pattern without a slash is for the file's name, one with a slash for its path; neither needs the `.rs`.
fn matches_file(pattern: &str, file: &str) -> bool {
    let pattern = pattern.strip_suffix(".rs").unwrap_or(pattern);
    let path = file.strip_suffix(".rs").unwrap_or(file);
    let name = path.rsplit('/').next().unwrap_or(path);
    let text = if pattern.contains('/') { path } else { name };
    glob(pattern.as_bytes(), text.as_bytes())
}

/// `*` for any run of bytes and `?` for any one; goes back to the last `*` only, so it cannot take long.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while let Some(byte) = text.get(t) {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, t));
                p += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted == byte => {
                p += 1;
                t += 1;
            }
            _ => {
                let Some((star, taken)) = retry else { return false };
                retry = Some((star, taken + 1));
                (p, t) = (star + 1, taken + 1);
            }
        }
    }
    pattern.iter().skip(p).all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_names_or_paths() {
        for (pattern, matches) in [
            ("flags", true),
            ("flags.rs", true),
            ("fl*", true),
            ("f?ags", true),
            ("*", true),
            ("*g*s", true),
            ("flag", false),
            ("cli", false),
            ("crates/ferrule/src/cli/flags", true),
            ("*/cli/*", true),
            ("*/config/*", false),
        ] {
            assert_eq!(matches_file(pattern, "crates/ferrule/src/cli/flags.rs"), matches, "{pattern}");
        }
    }

    #[test]
    fn a_file_pattern_lets_more_through() {
        let verbosity = Verbosity::default();
        verbosity.configure(&LoggingSettings {
            verbosity: 1,
            vmodule: vec![("app".to_owned(), 5)],
            ..LoggingSettings::default()
        });
        assert!(verbosity.shows(5, "src/app.rs"));
        assert!(!verbosity.shows(6, "src/app.rs"));
        assert!(verbosity.shows(1, "src/main.rs"));
        assert!(!verbosity.shows(2, "src/main.rs"));
    }
}
