//! Where programs are looked up, and their environment.
//!
//! An empty or relative element of `PATH` means the current folder, and a user who can write there could run a program with our
//! privileges. So such elements are ignored, for us and for what our programs start.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Used if `PATH` has no absolute folder.
const DEFAULT_FOLDERS: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Variables of the iptables commands that operators set on purpose: the path of the lock and of the extensions. All their paths
/// must be absolute, as in `PATH`.
const PASSED_ON: [&str; 2] = ["XTABLES_LOCKFILE", "XTABLES_LIBDIR"];

/// The path of a program, if any folder contains it.
pub fn find(program: &str) -> Option<PathBuf> {
    let folders = folders(env::var_os("PATH").as_deref());
    folders.into_iter().map(|folder| folder.join(program)).find(|path| is_executable(path))
}

/// The whole environment of a program.
pub(super) fn environment() -> Vec<(&'static str, OsString)> {
    let folders = folders(env::var_os("PATH").as_deref());
    let path = env::join_paths(folders).unwrap_or_default();
    let passed_on = PASSED_ON.into_iter().filter_map(|name| Some((name, absolute_variable(name)?)));
    [("PATH", path), ("LC_ALL", OsString::from("C"))].into_iter().chain(passed_on).collect()
}

/// The value of a variable, if all its paths are absolute.
pub(crate) fn absolute_variable(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| env::split_paths(value).all(|path| path.is_absolute()))
}

fn folders(path: Option<&OsStr>) -> Vec<PathBuf> {
    let absolute: Vec<PathBuf> =
        path.into_iter().flat_map(env::split_paths).filter(|folder| folder.is_absolute()).collect();
    if absolute.is_empty() { DEFAULT_FOLDERS.map(PathBuf::from).to_vec() } else { absolute }
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders_of(path: &str) -> Vec<String> {
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
            assert_eq!(folders_of(path), ["/usr/sbin", "/sbin"], "{path}");
        }
    }

    #[test]
    fn without_an_absolute_folder_the_usual_ones_count() {
        for path in ["", ":", ".", "bin:sbin", "~/bin"] {
            assert_eq!(folders_of(path), DEFAULT_FOLDERS, "{path:?}");
        }
        assert_eq!(folders(None), DEFAULT_FOLDERS.map(PathBuf::from));
        assert_eq!(
            folders_of("/nonexistent"),
            ["/nonexistent"],
            "one that is there counts alone, whatever is in it"
        );
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
