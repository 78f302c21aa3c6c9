//! Files that block: threads that wait for the test stand for threads that wait for a dead file system.

use std::os::unix::fs::symlink;
use std::time::Instant;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

const BRIEF: Duration = Duration::from_millis(200);

fn wanted(folder: &Path, names: &[&str]) -> Vec<ReadRequest> {
    names.iter().map(|name| ReadRequest { path: folder.join(name), known: None }).collect()
}

fn bytes_of(read: &[ReadResult], name: &str) -> Option<Vec<u8>> {
    let (_, state) = read.iter().find(|(path, _)| path.ends_with(name))?;
    match state {
        Ok(FileState::Content { bytes, .. }) => Some(bytes.clone()),
        _ => None,
    }
}

#[test]
fn a_file_that_blocks_affects_no_other() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.yaml", "c.yaml"] {
        fs::write(folder.path().join(name), name).unwrap();
    }
    let mut reader = FileReader { timeout: BRIEF, ..FileReader::default() };
    // A thread that is stuck in place of the file's.
    let (never, end) = sync_channel::<()>(0);
    let stuck = thread::spawn(move || end.recv().unwrap_or_default());
    reader.stuck.insert(folder.path().join("b.yaml"), stuck);
    let read = reader.read(wanted(folder.path(), &["a.yaml", "b.yaml", "c.yaml"]));
    assert_eq!(bytes_of(&read, "a.yaml").as_deref(), Some(&b"a.yaml"[..]));
    assert_eq!(bytes_of(&read, "c.yaml").as_deref(), Some(&b"c.yaml"[..]));
    let error = read.iter().find_map(|(_, found)| found.as_ref().err()).unwrap();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
    // Once its reader returns, it is read again.
    drop(never);
    fs::write(folder.path().join("b.yaml"), "b").unwrap();
    let deadline = Instant::now() + READ_TIMEOUT;
    while bytes_of(&reader.read(wanted(folder.path(), &["b.yaml"])), "b.yaml").is_none() {
        assert!(Instant::now() < deadline, "it is never read again");
    }
}

#[test]
fn a_directory_that_blocks_is_skipped_until_it_answers() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), "a").unwrap();
    let mut reader = FileReader { timeout: BRIEF, ..FileReader::default() };
    let (never, end) = sync_channel::<()>(0);
    let blocked = move || {
        let _ = end.recv();
        Ok(())
    };
    let began = Instant::now();
    let error = reader.names(folder.path(), blocked).unwrap_err();
    assert!(error.kind() == io::ErrorKind::TimedOut && began.elapsed() >= BRIEF, "{error}");
    let untried = || -> io::Result<()> { panic!("it is listed though its reader is stuck") };
    assert_eq!(reader.names(folder.path(), untried).unwrap_err().kind(), io::ErrorKind::TimedOut);
    drop(never);
    let deadline = Instant::now() + READ_TIMEOUT;
    while reader.names(folder.path(), || Ok(())).ok() != Some(vec!["a.yaml".into()]) {
        assert!(Instant::now() < deadline, "it is never read again");
    }
}

#[test]
fn what_is_not_a_regular_file_is_absent() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.yaml");
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fs::create_dir(folder.path().join("folder.yaml")).unwrap();
    symlink("loop.yaml", folder.path().join("loop.yaml")).unwrap();
    let mut reader = FileReader::default();
    let read = reader.read(wanted(folder.path(), &["pipe.yaml", "folder.yaml", "gone.yaml", "loop.yaml"]));
    let absent = read.iter().filter(|(_, found)| matches!(found, Ok(FileState::Absent))).count();
    let errors = read.iter().filter(|(_, found)| found.is_err()).count();
    assert_eq!((absent, errors), (3, 1), "{read:?}");
}

#[test]
fn a_file_above_the_limit_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = fs::File::create(folder.path().join("a.yaml")).unwrap();
    file.set_len(MAX_BYTES + 1).unwrap();
    let mut reader = FileReader::default();
    let read = reader.read(wanted(folder.path(), &["a.yaml"]));
    let error = read.iter().find_map(|(_, found)| found.as_ref().err()).unwrap();
    assert!(error.to_string().contains("256 MiB"), "{error}");
}

#[test]
fn the_number_of_abandoned_threads_is_limited() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("a.yaml"), "a").unwrap();
    let mut reader = FileReader { timeout: BRIEF, ..FileReader::default() };
    let (never, end) = std::sync::mpsc::channel::<()>();
    let end = std::sync::Arc::new(std::sync::Mutex::new(end));
    for number in 0..MAX_STUCK {
        let end = std::sync::Arc::clone(&end);
        let stuck = thread::spawn(move || drop(end.lock().map(|end| end.recv())));
        reader.stuck.insert(folder.path().join(number.to_string()), stuck);
    }
    let read = reader.read(wanted(folder.path(), &["a.yaml"]));
    assert!(read.iter().all(|(_, found)| found.is_err()));
    drop(never);
}
