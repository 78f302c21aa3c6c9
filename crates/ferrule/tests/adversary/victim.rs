//! The program under attack, and whether it still does its work.

use std::cell::Cell;
use std::ffi::OsStr;
use std::io::{self, PipeReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use ferrule_testkit::Program;
use rustix::pipe::fcntl_setpipe_size;
use rustix::process::Signal;

use crate::stand::{ASKING_POD, BINARY, PATIENCE, PODS, Stand, VIP, is_answered_by, service, slice, until};
use crate::table::Seen;

/// The smallest pipe there is.
const PIPE_SIZE: usize = 4096;
/// A health check that takes longer than this is as good as none to a load balancer.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

pub struct Victim {
    pub stand: Stand,
    pub program: Program,
    /// How many times it was asked for something new; decides which pods serve now.
    turn: Cell<usize>,
    /// The end of its log that nobody reads.
    _unread: Option<PipeReader>,
}

/// Who reads the log.
#[derive(Clone, Copy)]
enum Stderr {
    Read,
    Unread,
}

impl Victim {
    /// Serves one Service in nftables mode.
    pub fn new(arguments: &[&str]) -> Self {
        let stand = Stand::new();
        stand.write("web.yaml", &manifests(0));
        let program = stand.start(arguments);
        let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
        assert!(synced.is_some(), "no first sync:\n{}", program.log().join("\n"));
        Self { stand, program, turn: Cell::new(0), _unread: None }
    }

    /// The same under limits that a shell sets first.
    pub fn with_limits(script: &str) -> Self {
        Self::by_shell(script, Stderr::Read)
    }

    /// The same, with a log that nobody reads and that is full after a few lines.
    pub fn with_unread_log() -> Self {
        Self::by_shell("true", Stderr::Unread)
    }

    /// The same, with a log that cannot be written.
    pub fn with_closed_log() -> Self {
        Self::by_shell("exec 2>&-", Stderr::Unread)
    }

    /// The same where no file can grow: what may be written is as full as it gets.
    pub fn without_room(mode: &str) -> Self {
        let full = "for place in /run /var/tmp; do mount -t tmpfs -o size=4k full $place && head -c 1M /dev/zero >$place/full; done 2>/dev/null";
        let script = format!(
            "exec unshare --mount --propagation private sh -c '{full}; exec \"$0\" \"$@\"' \"$0\" \"$@\" --proxy-mode={mode}"
        );
        Self::by_shell(&script, Stderr::Read)
    }

    /// The same with a configuration file, and a file system beside it that answers nobody until a file `alive` there goes.
    pub fn beside_dead_file_system(folder: &Path) -> Self {
        let here = folder.display();
        let options = "fd=9,rootmode=40000,user_id=0,group_id=0";
        let script = format!(
            "exec unshare --mount --propagation private sh -c 'touch {here}/alive; mkdir {here}/dead; exec 9<>/dev/fuse; \
             mount -i -t fuse -o {options} dead {here}/dead; while [ -e {here}/alive ]; do sleep 0.1; done & \
             exec 9<&-; exec \"$0\" \"$@\"' \"$0\" --config={here}/config.yaml \"$@\""
        );
        Self::by_shell(&script, Stderr::Read)
    }

    /// The same in another mode, started by a thread that gives up something first: what that thread gave up, the program never
    /// has.
    pub fn restricted(mode: &str, restrict: impl FnOnce() -> io::Result<()> + Send) -> Self {
        let mut command = Command::new(BINARY);
        command.arg(format!("--proxy-mode={mode}"));
        Self::launched(Stderr::Read, command, restrict)
    }

    /// The same with a variable in its environment.
    pub fn with_variable(name: &str, value: impl AsRef<OsStr>) -> Self {
        let mut command = Command::new(BINARY);
        command.env(name, value);
        Self::launched(Stderr::Read, command, || Ok(()))
    }

    fn by_shell(script: &str, stderr: Stderr) -> Self {
        let script = format!("{script}; exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &script, BINARY]);
        Self::launched(stderr, command, || Ok(()))
    }

    fn launched(
        stderr: Stderr,
        mut command: Command,
        restrict: impl FnOnce() -> io::Result<()> + Send,
    ) -> Self {
        let stand = Stand::new();
        stand.write("web.yaml", &manifests(0));
        command.arg("--manifests").arg(stand.folder());
        command.args(["--hostname-override", "node-a", "-v=9", "--cluster-cidr=10.244.0.0/16"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let spawn = || {
            let (unread, mut pipe) = io::pipe()?;
            if matches!(stderr, Stderr::Unread) {
                let size = fcntl_setpipe_size(&pipe, PIPE_SIZE)?;
                pipe.write_all(&vec![b'.'; size])?;
            }
            match stderr {
                Stderr::Read => command.stderr(Stdio::piped()),
                Stderr::Unread => command.stderr(pipe),
            };
            restrict()?;
            let child = command.spawn()?;
            io::Result::Ok((child, unread))
        };
        let (child, unread) = stand.net.node().run(spawn).expect("the node").expect("the program");
        let program = Program::watching(child).expect("its log");
        let victim = Self { stand, program, turn: Cell::new(0), _unread: Some(unread) };
        until(|| victim.get(10256, "/readyz").ok().filter(|answer| answer.contains(" 200 ")));
        victim
    }

    /// Asks it to end; the node stays.
    pub fn stop(&mut self) {
        self.program.signal(Signal::TERM).expect("a signal");
        self.program.wait_until_ended();
    }

    /// Ends it at once; the node stays.
    pub fn kill(&mut self) {
        self.program.signal(Signal::KILL).expect("a signal");
        self.program.wait_until_ended();
    }

    /// Starts it again.
    pub fn resume(&mut self) {
        self.program = self.stand.serve();
    }

    /// Whether it is alive, healthy, and serves a change; says how long the change took.
    /// Does something while the program stands still, as if it got no processor time.
    pub fn while_stopped(&self, work: impl FnOnce() -> Result<(), String>) -> Result<(), String> {
        let signal = |signal| self.program.signal(signal).map_err(|error| error.to_string());
        signal(Signal::STOP)?;
        until(|| self.program.is_stopped().then_some(()));
        let done = work();
        signal(Signal::CONT)?;
        done
    }

    pub fn is_well(&self) -> Seen {
        self.is_running()?;
        let began = Instant::now();
        let pod = self.change_pod();
        self.stand.ask_until(ASKING_POD, VIP, 80, |seen| is_answered_by(seen, &[pod]));
        let took = began.elapsed();
        self.is_healthy()?;
        Ok(format!("serves on, a change within {} ms", took.as_millis()))
    }

    /// Puts another pod behind the Service, and says which.
    pub fn change_pod(&self) -> &'static str {
        let turn = self.turn.get() + 1;
        self.turn.set(turn);
        self.stand.write("web.yaml", &manifests(turn));
        PODS[turn % PODS.len()]
    }

    /// Whether it runs, says that it is healthy, and no thread of it broke down.
    pub fn is_healthy(&self) -> Result<(), String> {
        self.is_running()?;
        let health = self.get(10256, "/healthz");
        if !health.as_ref().is_ok_and(|answer| answer.contains(" 200 ")) {
            return Err(format!("/healthz: {health:?}"));
        }
        if let Some(line) = self.program.log().iter().find(|line| line.contains("panicked")) {
            return Err(line.clone());
        }
        Ok(())
    }

    fn is_running(&self) -> Result<(), String> {
        let state = std::fs::read_to_string(format!("/proc/{}/stat", self.program.id())).unwrap_or_default();
        if state.is_empty() || state.contains(") Z ") {
            return Err(format!("it ended:\n{}", self.last_lines()));
        }
        Ok(())
    }

    /// Whether it serves a change, and a line of the log says this.
    pub fn is_well_and_said(&self, after: usize, words: &str) -> Seen {
        let said = self.program.wait_for(words, after, PATIENCE);
        let said = said.ok_or_else(|| format!("the log does not say \"{words}\""))?;
        if said.len() > 4096 {
            return Err(format!("a line of {} bytes", said.len()));
        }
        self.is_well().map(|seen| format!("{seen}; told"))
    }

    /// Asks a page on the node's loopback.
    pub fn get(&self, port: u16, path: &str) -> io::Result<String> {
        self.stand
            .net
            .node()
            .run(|| get(port, path))
            .map_err(|error| io::Error::other(error.with_sources()))?
    }

    fn last_lines(&self) -> String {
        let log = self.program.log();
        log[log.len().saturating_sub(5)..].join("\n")
    }
}

/// The Service with one pod behind it, another one each time. The slice says when that was, as its controller does.
fn manifests(turn: usize) -> String {
    let now = jiff::Timestamp::now();
    let annotated = format!(
        "metadata:\n  annotations: {{endpoints.kubernetes.io/last-change-trigger-time: \"{now:.3}\"}}\n"
    );
    let slice = slice(&[PODS[turn % PODS.len()]]).replace("metadata:\n", &annotated);
    format!("{}---\n{slice}", service(""))
}

fn get(port: u16, path: &str) -> io::Result<String> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let mut stream = TcpStream::connect_timeout(&address, HEALTH_TIMEOUT)?;
    stream.set_read_timeout(Some(HEALTH_TIMEOUT))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}
