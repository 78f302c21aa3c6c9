//! Whoever reads the log, or does not, and whatever objects are called: rules are written and the log stays readable.

use std::fs::File;
use std::io::{self, Read as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use ferrule_testkit::netns::or_skip;
use rustix::process::{Pid, Signal, kill_process};

use crate::stand::{ASKING_POD, BINARY, PATIENCE, PODS, Stand, VIP, is_answered_by, service, slice};

/// Characters that must not be in a log, and how a tenant may write them.
const HOSTILE: &str =
    "\\u001b[2J\\u202e\\u2028\\u0085\\r\\nE1117 00:00:00.000000       1 forged.rs:1] forged";

/// The program with its standard error somewhere of the test's own.
struct Logging(Child);

impl Logging {
    fn start(stand: &Stand, stderr: impl Into<Stdio> + Send) -> Self {
        let child = stand.net.node().run(|| {
            Command::new(BINARY)
                .arg("--manifests")
                .arg(stand.folder())
                .args(["--hostname-override=node-a", "--cluster-cidr=10.244.0.0/16", "-v=4"])
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(stderr)
                .spawn()
        });
        Self(child.expect("the node").expect("it starts"))
    }

    fn terminate(mut self) -> io::Result<ExitStatus> {
        let process = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw).expect("a process");
        kill_process(process, Signal::TERM)?;
        self.0.wait()
    }
}

impl Drop for Logging {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn assert_changes_are_served(stand: &Stand) {
    for round in 0..3 {
        for pod in PODS {
            stand.write("web.yaml", &format!("{}---\n{}", service(""), slice(&[pod])));
            let seen = stand.ask_until(ASKING_POD, VIP, 80, |seen| is_answered_by(seen, &[pod]));
            assert!(is_answered_by(&seen, &[pod]), "round {round}");
        }
    }
}

#[test]
fn a_log_that_nobody_reads_stops_no_change_and_no_end() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let (mut reader, writer) = io::pipe().expect("a pipe");
    // A single page, which is full before the first rule is written.
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).expect("a small pipe");
    let program = Logging::start(&stand, writer);
    assert_changes_are_served(&stand);
    let began = Instant::now();
    assert_eq!(program.terminate().expect("it ends").code(), Some(0));
    assert!(began.elapsed() < PATIENCE, "it took {:?} to end", began.elapsed());
    let mut text = String::new();
    reader.read_to_string(&mut text).expect("what fitted");
    assert!(text.starts_with('I'), "{text}");
}

#[test]
fn a_log_that_cannot_be_written_stops_no_change_and_no_end() {
    if !or_skip() {
        return;
    }
    let (reader, closed) = io::pipe().expect("a pipe");
    drop(reader);
    let full = File::options().write(true).open("/dev/full").expect("a full disk");
    for stderr in [Stdio::from(full), Stdio::from(closed)] {
        let stand = Stand::new();
        let program = Logging::start(&stand, stderr);
        assert_changes_are_served(&stand);
        assert_eq!(program.terminate().expect("it ends").code(), Some(0));
    }
}

/// An object whose every text is hostile, and files that are no objects at all.
#[test]
fn objects_and_files_cannot_steer_a_terminal_or_forge_lines() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    stand.write("kind.yaml", &format!("apiVersion: v1\nkind: \"{HOSTILE}\"\nmetadata: {{name: x}}\n"));
    stand.write("name.yaml", &service("").replace("name: web", &format!("name: \"{HOSTILE}\"")));
    stand.write("address.yaml", &service(&format!("  externalIPs: [\"{HOSTILE}\"]\n")));
    stand.write("torn.yaml", &format!("kind: [\"{HOSTILE}\"\nx: \u{202e}\u{1b}[31m\n"));
    stand.write("long\u{1b}\u{202e}.yaml", &format!("apiVersion: v1\nkind: {}\n", "k".repeat(1_500_000)));
    let program = stand.serve();
    assert!(program.wait_for("Manifest", 0, PATIENCE).is_some());
    let log = program.log();
    for line in &log {
        let is_hostile =
            |letter: &char| letter.is_control() && *letter != '\t' || "\u{202e}\u{2028}".contains(*letter);
        assert_eq!(line.chars().find(is_hostile), None, "{line:?}");
        let is_head = |line: &str| line.starts_with(['I', 'W', 'E']) && line.contains("] ");
        assert!(is_head(line) || line.starts_with(['\t', ' ']), "not a line of its own: {line:?}");
        assert!(!line.starts_with("E1117 00:00:00.000000       1 forged"), "{line:?}");
        assert!(line.len() < 32 * 1024, "a line of {} bytes", line.len());
    }
    assert!(log.iter().any(|line| line.contains("forged")), "nothing was said of them:\n{}", log.join("\n"));
    assert!(log.iter().any(|line| line.contains("kkkk")), "{}", log.join("\n"));
    drop(program);
}
