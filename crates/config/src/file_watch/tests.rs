//! Real files: written, renamed, removed, swapped as kubelet swaps a ConfigMap.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};

use super::*;

const SOON: Duration = Duration::from_secs(10);
const A_WHILE: Duration = Duration::from_millis(400);

/// A folder with a file, and a watch on it.
fn watched(content: &str) -> (tempfile::TempDir, PathBuf, FileWatch) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config.conf");
    fs::write(&path, content).expect("a file");
    let watch = FileWatch::new(&path, content.as_bytes().to_vec());
    (folder, path, watch)
}

fn content(watch: &mut FileWatch) -> Option<String> {
    match watch.next(SOON)? {
        FileChange::Content(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        FileChange::Unreadable(_) | FileChange::Unwatched(_) => None,
    }
}

fn assert_quiet(watch: &mut FileWatch) {
    assert_eq!(watch.next(A_WHILE), None);
}

/// Row: server 3.2 #1, 8.12 #1
#[test]
fn writing_in_place_and_appending_is_a_change() {
    let (_folder, path, mut watch) = watched("one");
    fs::write(&path, "two").expect("written");
    assert_eq!(content(&mut watch).as_deref(), Some("two"));
    assert_quiet(&mut watch);
    let mut file = fs::OpenOptions::new().append(true).open(&path).expect("opened");
    file.write_all(b" and more").expect("written");
    assert_eq!(content(&mut watch).as_deref(), Some("two and more"));
}

/// Writes a file in pieces, slowly, as over a slow mount.
#[expect(clippy::disallowed_methods, reason = "being slow is the point")]
fn write_slowly(path: PathBuf) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut file = fs::File::create(&path).expect("opened");
        let pieces: Vec<String> = (0..12).map(|index| format!("piece {index}\n")).collect();
        for piece in &pieces {
            file.write_all(piece.as_bytes()).expect("written");
            std::thread::sleep(Duration::from_millis(30));
        }
        pieces.concat()
    })
}

/// Everything reported until the writer is done and it has been quiet for a while.
fn changes_during(
    writer: std::thread::JoinHandle<String>,
    watch: &mut FileWatch,
    each: Duration,
) -> (Vec<FileChange>, String) {
    let mut changes = Vec::new();
    while !writer.is_finished() {
        changes.extend(watch.next(each));
    }
    while let Some(change) = watch.next(A_WHILE) {
        changes.push(change);
    }
    (changes, writer.join().expect("the writer is done"))
}

#[test]
fn a_slow_writer_makes_one_change_however_the_watch_is_asked() {
    for each in [Duration::ZERO, Duration::from_millis(7), SOON] {
        let (_folder, path, mut watch) = watched("one");
        let (changes, written) = changes_during(write_slowly(path), &mut watch, each);
        assert_eq!(changes, [FileChange::Content(written.into_bytes())], "{each:?}");
    }
}

#[test]
fn a_writer_that_was_at_it_before_the_watch_began_makes_one_change_too() {
    let (_folder, path, _) = watched("one");
    let writer = write_slowly(path.clone());
    while fs::read(&path).expect("a file").len() < 9 {
        std::thread::yield_now();
    }
    let mut watch = FileWatch::new(&path, b"one".to_vec());
    let (changes, written) = changes_during(writer, &mut watch, Duration::ZERO);
    assert_eq!(changes, [FileChange::Content(written.into_bytes())]);
}

/// Row: server 3.2 #4
#[test]
fn renaming_over_the_file_is_a_change_and_the_next_one_is_seen_too() {
    let (folder, path, mut watch) = watched("one");
    for text in ["two", "three"] {
        let new = folder.path().join("new");
        fs::write(&new, text).expect("written");
        fs::rename(&new, &path).expect("renamed");
        assert_eq!(content(&mut watch).as_deref(), Some(text));
    }
}

/// Row: server 3.2 #3
#[test]
fn touching_and_rewriting_the_same_bytes_is_none() {
    let (folder, path, mut watch) = watched("one");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("changed");
    fs::write(&path, "one").expect("written");
    fs::write(folder.path().join("another"), "x").expect("written");
    assert_quiet(&mut watch);
}

/// Row: server 3.2 #4
#[test]
fn a_removed_file_is_reported_once_and_so_is_its_return() {
    let (_folder, path, mut watch) = watched("one");
    fs::remove_file(&path).expect("removed");
    let gone = FileChange::Unreadable(Unreadable::System(io::ErrorKind::NotFound));
    assert_eq!(watch.next(SOON), Some(gone));
    assert_quiet(&mut watch);
    fs::write(&path, "one").expect("written");
    assert_eq!(content(&mut watch).as_deref(), Some("one"));
}

/// Row: server 3.2 #2
#[test]
fn a_file_that_is_moved_away_is_reported_and_what_comes_in_its_place_is_seen() {
    let (folder, path, mut watch) = watched("one");
    fs::rename(&path, folder.path().join("elsewhere")).expect("renamed");
    let gone = FileChange::Unreadable(Unreadable::System(io::ErrorKind::NotFound));
    assert_eq!(watch.next(SOON), Some(gone));
    fs::write(&path, "two").expect("written");
    assert_eq!(content(&mut watch).as_deref(), Some("two"));
}

/// Row: server 3.2
#[test]
fn an_edit_before_the_watch_began_is_seen() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("config.conf");
    fs::write(&path, "edited meanwhile").expect("a file");
    let mut watch = FileWatch::new(&path, b"as it was read".to_vec());
    assert_eq!(content(&mut watch).as_deref(), Some("edited meanwhile"));
}

/// A folder as kubelet makes one for a ConfigMap: the file links into `..data`, which links to a dated folder.
struct ConfigMapVolume {
    folder: tempfile::TempDir,
    version: u32,
}

impl ConfigMapVolume {
    fn new(content: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut volume = Self { folder, version: 0 };
        volume.swap(content);
        symlink("..data/config.conf", volume.file()).expect("a link");
        volume
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("config.conf")
    }

    /// Writes a new dated folder, swaps `..data` onto it by rename, removes the old one: kubelet's own steps.
    fn swap(&mut self, content: &str) {
        let root = self.folder.path();
        let old = format!("..version_{}", self.version);
        self.version += 1;
        let new = format!("..version_{}", self.version);
        fs::create_dir(root.join(&new)).expect("a folder");
        fs::write(root.join(&new).join("config.conf"), content).expect("a file");
        symlink(&new, root.join("..data_tmp")).expect("a link");
        fs::rename(root.join("..data_tmp"), root.join("..data")).expect("swapped");
        if self.version > 1 {
            fs::remove_dir_all(root.join(old)).expect("removed");
        }
    }
}

/// Row: server 3.2 #5
#[test]
fn a_config_map_swap_is_one_change() {
    let mut volume = ConfigMapVolume::new("one");
    let mut watch = FileWatch::new(&volume.file(), b"one".to_vec());
    for text in ["two", "three", "four"] {
        volume.swap(text);
        assert_eq!(content(&mut watch).as_deref(), Some(text));
        assert_quiet(&mut watch);
    }
    volume.swap("four");
    assert_quiet(&mut watch);
}

#[test]
fn a_file_below_a_linked_folder_is_watched_where_it_is() {
    let volume = ConfigMapVolume::new("one");
    let path = volume.folder.path().join("..data").join("config.conf");
    let mut watch = FileWatch::new(&path, b"one".to_vec());
    fs::write(&path, "two").expect("written");
    assert_eq!(content(&mut watch).as_deref(), Some("two"));
}

#[test]
fn links_that_go_in_circles_do_no_harm() {
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    symlink(&b, &a).expect("a link");
    symlink(&a, &b).expect("a link");
    let mut watch = FileWatch::new(&a, b"one".to_vec());
    assert!(matches!(watch.next(SOON), Some(FileChange::Unreadable(_))));
}

/// kube-proxy ends if its watch fails; this one looks for the directory until it is there again.
///
/// Row: server 3.2 #6
#[test]
fn a_directory_that_is_removed_or_renamed_is_watched_again_when_it_is_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let inner = folder.path().join("inner");
    let path = inner.join("config.conf");
    fs::create_dir(&inner).expect("a folder");
    fs::write(&path, "one").expect("a file");
    let mut watch = FileWatch::new(&path, b"one".to_vec());
    for (round, text) in ["two", "three"].into_iter().enumerate() {
        if round == 0 {
            fs::remove_dir_all(&inner).expect("removed");
        } else {
            fs::rename(&inner, folder.path().join("elsewhere")).expect("renamed");
        }
        let gone = watch.next(SOON);
        assert_eq!(gone, Some(FileChange::Unreadable(Unreadable::System(io::ErrorKind::NotFound))), "{text}");
        fs::create_dir(&inner).expect("a folder");
        fs::write(&path, text).expect("a file");
        assert_eq!(content(&mut watch).as_deref(), Some(text));
    }
    assert_quiet(&mut watch);
    fs::write(&path, "four").expect("written");
    assert_eq!(content(&mut watch).as_deref(), Some("four"));
}

/// What stands in the place of the file, and what is said of it.
fn replaced_by(put: impl FnOnce(&Path), expected: Unreadable) {
    let (_folder, path, mut watch) = watched("one");
    fs::remove_file(&path).expect("removed");
    put(&path);
    assert_eq!(watch.next(SOON), Some(FileChange::Unreadable(expected)));
    assert_quiet(&mut watch);
    let remove = if path.is_dir() { fs::remove_dir } else { fs::remove_file };
    remove(&path).expect("removed");
    fs::write(&path, "two").expect("written");
    let change = watch.next(SOON);
    let back = FileChange::Content(b"two".to_vec());
    let gone = FileChange::Unreadable(Unreadable::System(io::ErrorKind::NotFound));
    assert!(change == Some(back.clone()) || change == Some(gone) && watch.next(SOON) == Some(back));
}

#[test]
fn a_pipe_in_the_place_of_the_file_holds_nobody_up() {
    let make = |path: &Path| {
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.expect("mkfifo runs").success());
    };
    replaced_by(make, Unreadable::NotAFile);
}

#[test]
fn a_directory_in_the_place_of_the_file_is_told_once() {
    let expected = Unreadable::System(io::ErrorKind::IsADirectory);
    replaced_by(|path| fs::create_dir(path).expect("a folder"), expected);
}

#[test]
fn a_device_without_end_in_the_place_of_the_file_is_not_read() {
    replaced_by(|path| symlink("/dev/zero", path).expect("a link"), Unreadable::NotAFile);
}

#[test]
fn a_file_of_a_gigabyte_is_not_read() {
    let make = |path: &Path| fs::File::create(path).and_then(|file| file.set_len(1 << 30)).expect("a file");
    replaced_by(make, Unreadable::TooLarge);
}

#[test]
fn a_file_that_links_to_itself_is_told_once() {
    let (_folder, path, mut watch) = watched("one");
    fs::remove_file(&path).expect("removed");
    symlink(&path, &path).expect("a link");
    let Some(FileChange::Unreadable(Unreadable::System(kind))) = watch.next(SOON) else { panic!("not told") };
    assert_ne!(kind, io::ErrorKind::NotFound);
    assert_quiet(&mut watch);
}

/// A hundred times a second the file is another, or is not there at all. What it is in the end counts.
#[test]
#[expect(clippy::disallowed_methods, reason = "the pace of the writer is the point")]
fn a_file_that_flaps_is_read_seldom_and_its_last_content_is_not_missed() {
    let (folder, path, mut watch) = watched("one");
    let file = path.clone();
    let writer = std::thread::spawn(move || {
        for round in 0..300 {
            let new = folder.path().join("new");
            if round % 3 == 2 {
                fs::remove_file(&file).expect("removed");
            } else {
                fs::write(&new, format!("round {round}")).expect("written");
                fs::rename(&new, &file).expect("renamed");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        fs::write(&file, "the last").expect("written");
        (folder, "the last".to_owned())
    });
    let mut changes = Vec::new();
    while !writer.is_finished() {
        changes.extend(watch.next(Duration::from_millis(50)));
    }
    while let Some(change) = watch.next(A_WHILE) {
        changes.push(change);
    }
    assert_eq!(changes.last(), Some(&FileChange::Content(b"the last".to_vec())));
    assert!(changes.len() < 20, "read {} times", changes.len());
    drop(writer.join().expect("the writer is done"));
}

#[test]
fn without_a_watch_to_be_had_the_file_is_read_every_second() {
    let (_folder, path, mut watch) = watched("one");
    watch.inotify = None;
    fs::write(&path, "two").expect("written");
    assert_eq!(content(&mut watch).as_deref(), Some("two"));
    assert!(watch.inotify.is_some(), "it is watched again");
}

#[test]
fn a_failure_to_watch_is_reported_once_until_it_is_over() {
    let (_folder, path, mut watch) = watched("one");
    let refused = io::Error::from_raw_os_error(rustix::io::Errno::MFILE.raw_os_error());
    watch.poll_instead(&refused);
    watch.poll_instead(&refused);
    assert_eq!(watch.failure_report(), Some(FileChange::Unwatched(refused.to_string())));
    watch.poll_instead(&refused);
    assert_eq!(watch.failure_report(), None);
    fs::write(&path, "two").expect("written");
    assert_eq!(content(&mut watch).as_deref(), Some("two"));
    assert_eq!(watch.failure, WatchFailure::None, "it is watched again");
}

/// The directories can be watched all the while, and that a file system answers again is no event in them.
#[test]
fn a_file_system_that_answers_again_is_noticed_without_an_event() {
    let (_folder, _path, mut watch) = watched("one");
    watch.calls = BoundedCalls::new(Duration::from_millis(100));
    let (_never, stuck) = std::sync::mpsc::channel::<()>();
    let answers_late = move || stuck.recv_timeout(A_WHILE).is_ok();
    assert!(watch.calls.run(answers_late).is_err());
    watch.last = Err(Unreadable::TimedOut);
    assert!(watch.inotify.is_some());
    assert_eq!(content(&mut watch).as_deref(), Some("one"));
}
