//! Ferrule in shadow mode beside the real kube-proxy, on its node: what kube-proxy wrote must be what the plan says.

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ferrule_testkit::Program;
use ferrule_testkit::netns::Namespace;
use serde_json::Value;
use tempfile::TempDir;

const BRIEFLY: Duration = Duration::from_millis(100);

const NO_ANSWER: &str = "no answer";
const ERROR: &str = "error: ";

/// A process in shadow mode.
pub struct Shadow {
    socket: PathBuf,
    program: Program,
    #[expect(dead_code, reason = "removed when it is dropped")]
    folder: TempDir,
}

impl Shadow {
    /// With the configuration file of the proxy beside it, and these flags.
    pub fn start(node: &Namespace, file: &Path, flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let socket = folder.path().join("own").join("inspect.sock");
        let mut arguments = vec![
            format!("--config={}", file.display()),
            "--shadow".to_owned(),
            "--shadow-settle-time=1s".to_owned(),
            format!("--inspect-socket={}", socket.display()),
        ];
        arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let program = Path::new(env!("CARGO_BIN_EXE_ferrule-under-test"));
        let program = Program::start(node, program, &arguments).expect("it starts");
        Self { socket, program, folder }
    }

    /// Waits until it knows this Service and finds no difference; what differs if that does not come.
    pub fn wait_until_it_agrees(&self, service: &str, patience: Duration) -> Result<(), String> {
        let give_up = Instant::now() + patience;
        loop {
            let knows = self.ask(&format!("plan?service={service}"));
            let knows = knows.is_some_and(|answer| answer["total"].as_u64() > Some(0));
            let lines = if knows { self.differences() } else { vec![format!("{service} is not known")] };
            if lines.is_empty() {
                return Ok(());
            }
            if Instant::now() > give_up {
                return Err(format!("{}\n{}", lines.join("\n"), self.log()));
            }
            std::thread::park_timeout(BRIEFLY);
        }
    }

    /// Waits until it finds a difference; returns all of them.
    pub fn wait_for_differences(&self, patience: Duration) -> Vec<String> {
        let give_up = Instant::now() + patience;
        loop {
            // That nothing could be read is no finding.
            let found =
                self.differences().into_iter().filter(|line| line != NO_ANSWER && !line.starts_with(ERROR));
            let lines: Vec<String> = found.collect();
            if !lines.is_empty() || Instant::now() > give_up {
                return lines;
            }
            std::thread::park_timeout(BRIEFLY);
        }
    }

    /// What differs now, in both families.
    pub fn differences(&self) -> Vec<String> {
        let Some(answer) = self.ask("diff") else { return vec![NO_ANSWER.to_owned()] };
        let families = answer["families"].as_object().cloned().unwrap_or_default();
        let of_family = |family: &Value| {
            let lines = family["lines"].as_array().cloned().unwrap_or_default();
            let error = family["error"].as_str().map(|error| format!("{ERROR}{error}"));
            let lines = lines.iter().map(|line| line.as_str().unwrap_or_default().to_owned());
            lines.chain(error).collect::<Vec<_>>()
        };
        assert!(!families.is_empty(), "no family is compared: {answer}");
        families.values().flat_map(of_family).collect()
    }

    /// The answer to a question, once there is one.
    fn ask(&self, question: &str) -> Option<Value> {
        let mut stream = UnixStream::connect(&self.socket).ok()?;
        let request = format!("GET /ferrule/v1/{question} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (_, body) = answer.split_once("\r\n\r\n")?;
        serde_json::from_str(body).ok()
    }

    /// The end of its log.
    pub fn log(&self) -> String {
        let log = self.program.log();
        let end: Vec<&str> = log.iter().rev().take(8).rev().map(String::as_str).collect();
        end.join("\n")
    }
}
