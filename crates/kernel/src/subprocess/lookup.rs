//! Where a program is looked for, and what it is told about its surroundings.
//!
//! An empty or relative element of `PATH` means the current folder, and whoever can write there could have a program of theirs
//! run with our rights. So such elements do not count, neither for us nor for what our programs start.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// What counts if `PATH` names no absolute folder.
const USUAL_FOLDERS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Variables that change what the iptables programs do and that operators set on purpose: where the lock is, and where the
/// extensions are. All that they name must be absolute, as in `PATH`.
const HANDED_ON: [&str; 2] = ["XTABLES_LOCKFILE", "XTABLES_LIBDIR"];

/// Where a program is, if any folder has it.
pub fn find(program: &str) -> Option<PathBuf> {
    let folders = folders(env::var_os("PATH").as_deref());
    folders.into_iter().map(|folder| folder.join(program)).find(|path| is_executable(path))
}

/// All that a program finds in its environment.
pub(super) fn environment() -> Vec<(&'static str, OsString)> {
    let folders = folders(env::var_os("PATH").as_deref());
    let path = env::join_paths(folders).unwrap_or_default();
    let handed_on = HANDED_ON.into_iter().filter_map(|name| Some((name, absolute(name)?)));
    [("PATH", path), ("LC_ALL", OsString::from("C"))].into_iter().chain(handed_on).collect()
}

/// A variable that names absolute paths and nothing else.
pub(crate) fn absolute(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| env::split_paths(value).all(|path| path.is_absolute()))
}

fn folders(path: Option<&OsStr>) -> Vec<PathBuf> {
    let absolute: Vec<PathBuf> =
        path.into_iter().flat_map(env::split_paths).filter(|folder| folder.is_absolute()).collect();
    if absolute.is_empty() { USUAL_FOLDERS.map(PathBuf::from).to_vec() } else { absolute }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> Vec<String> {
        folders(Some(OsStr::new(path))).iter().map(|folder| folder.display().to_string()).collect()
    }

    #[test]
    fn empty_and_relative_elements_of_path_do_not_count() {
        for path in [
            ":/usr/sbin:/sbin",
            "/usr/sbin:/sbin:",
            "/usr/sbin::/sbin",
            ".:/usr/sbin:/sbin",
            "/usr/sbin:bin:./x:/sbin",
        ] {
            assert_eq!(of(path), ["/usr/sbin", "/sbin"], "{path}");
        }
    }

    #[test]
    fn without_an_absolute_folder_the_usual_ones_count() {
        for path in ["", ":", ".", "bin:sbin", "~/bin"] {
            assert_eq!(of(path), USUAL_FOLDERS, "{path:?}");
        }
        assert_eq!(folders(None), USUAL_FOLDERS.map(PathBuf::from));
        assert_eq!(of("/nonexistent"), ["/nonexistent"], "one that is there counts alone, whatever is in it");
    }

    #[test]
    fn folders_and_files_that_cannot_be_run_are_no_programs() {
        let folder = tempfile::tempdir().expect("a folder");
        let (file, program) = (folder.path().join("file"), folder.path().join("program"));
        fs::write(&file, "").expect("a file");
        fs::write(&program, "").expect("a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it can be run");
        assert!(!is_executable(folder.path()) && !is_executable(&file) && is_executable(&program));
    }
}
