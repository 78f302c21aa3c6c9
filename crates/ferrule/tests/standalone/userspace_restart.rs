//! userspace mode while processes follow each other, or come and go: the sockets are always served by one of them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::AssertUnwindSafe;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use ferrule_testkit::Program;
use ferrule_testkit::netns::or_skip;

use crate::stand::{
    ASKING_POD, CLIENT, NODE, PATIENCE, PODS, Stand, VIP, ip, is_answered_by, service, slice, until,
};
use crate::userspace::{MODE, connect, echo, namespace, said_back, saved, serve};

const RESTARTS: usize = 3;
/// Connections that are served after a restart before the next one.
const SERVED_BETWEEN_RESTARTS: usize = 100;

/// A Service whose endpoint says back what it is told.
fn serve_echo(stand: &Stand) -> (TcpListener, Program) {
    let echo = echo(namespace(stand, PODS[0]), PODS[0]);
    let text = format!("{}---\n{}", service(""), slice(&PODS[..1])).replace("port: 8080}", "port: 9090}");
    stand.write("web.yaml", &text);
    (echo, serve(stand, &[]))
}

/// Starts a process that takes the place of another.
fn succeed(stand: &Stand, program: &Program) -> Program {
    let said = program.said();
    program.wait_for("can take over", 0, PATIENCE).expect("it offers its sockets");
    let next = stand.start(&MODE);
    let handed_over = program.wait_for("took over the sockets", said, PATIENCE);
    assert!(handed_over.is_some(), "{}\n{}", program.log().join("\n"), next.log().join("\n"));
    next.wait_for("Synced", 0, PATIENCE).expect("the next one serves");
    next
}

/// Does something while clients connect all the time; returns what they saw.
fn under_load(stand: &Stand, act: impl FnOnce(&Load)) -> Load {
    let load = Load::default();
    std::thread::scope(|scope| {
        let client = namespace(stand, CLIENT);
        let clients = scope.spawn(|| client.run(|| load.connect_repeatedly()).expect("the client"));
        let acted = std::panic::catch_unwind(AssertUnwindSafe(|| act(&load)));
        load.end();
        clients.join().expect("the clients");
        acted.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
    load
}

/// The next process starts while this one runs: whoever connects meanwhile is served by one of them, and who was connected stays so.
#[test]
fn a_restart_under_load_refuses_nobody_and_writes_no_rule() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let (_echo, mut program) = serve_echo(&stand);
    let rules = |stand: &Stand| {
        saved(stand).lines().filter(|line| line.starts_with("-A")).map(str::to_owned).collect::<Vec<_>>()
    };
    let (before, mut open) = (rules(&stand), connect(namespace(&stand, ASKING_POD), VIP));
    said_back(&mut open);
    let mut before_it = Vec::new();
    let load = under_load(&stand, |load| {
        for _ in 0..RESTARTS {
            let next = succeed(&stand, &program);
            before_it.push(std::mem::replace(&mut program, next));
            load.wait_for_more(SERVED_BETWEEN_RESTARTS);
        }
    });
    assert_eq!(load.failures(), [""; 0], "of {}", load.served());
    assert_eq!(rules(&stand), before, "the same sockets, so the same rules");
    said_back(&mut open);
}

/// Whatever becomes of the process that took over: the one before serves again, with what has changed meanwhile. Only who was
/// connected to the process that was killed is lost.
#[test]
fn a_process_that_gave_its_sockets_away_serves_again_when_its_successor_dies() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let (_echo, program) = serve_echo(&stand);
    let mut open = connect(namespace(&stand, ASKING_POD), VIP);
    said_back(&mut open);
    let load = under_load(&stand, |load| {
        for (end, pod) in [(Program::kill as fn(Program) -> _, PODS[1]), (Program::terminate, PODS[2])] {
            let next = succeed(&stand, &program);
            load.wait_for_more(SERVED_BETWEEN_RESTARTS);
            // What this one does not see as long as it stands by.
            let other = service("").replace("name: web", "name: other").replace(VIP, "10.96.0.11");
            let other = other.replace("3008", "3108").replace("3005", "3105");
            let slices = slice(&[pod]).replace("name: web-1", "name: other-1");
            let slices = slices.replace("service-name: web", "service-name: other");
            stand.write("other.yaml", &format!("{other}---\n{slices}"));
            stand.ask_until(CLIENT, NODE, 31080, |seen| is_answered_by(seen, &[pod]));
            let said = program.said();
            end(next).expect("it ends");
            program.wait_for("serving again", said, PATIENCE).expect("it serves again");
            load.wait_for_more(SERVED_BETWEEN_RESTARTS);
            stand.ask_until(CLIENT, NODE, 31080, |seen| is_answered_by(seen, &[pod]));
        }
    });
    let lost = load.failures();
    assert!(lost.len() <= Load::THREADS as usize, "{lost:?} of {}", load.served());
    assert!(lost.iter().all(|error| !error.contains("refused")), "{lost:?}");
    said_back(&mut open);
}

/// Processes that start together take over one after the other: no client is refused, and the last one serves.
#[test]
fn processes_that_start_together_take_over_in_turn() {
    if !or_skip() {
        return;
    }
    let stand = Stand::new();
    let (_echo, first) = serve_echo(&stand);
    let mut programs = vec![first];
    let load = under_load(&stand, |load| {
        programs.extend((0..3).map(|_| stand.start(&MODE)));
        let gave =
            |program: &&Program| program.log().iter().any(|line| line.contains("took over the sockets"));
        until(|| {
            std::thread::park_timeout(Duration::from_millis(50));
            (programs.iter().filter(gave).count() == 3).then_some(())
        });
        load.wait_for_more(SERVED_BETWEEN_RESTARTS);
    });
    assert_eq!(load.failures(), [""; 0], "of {}", load.served());
    let mut open = connect(namespace(&stand, ASKING_POD), VIP);
    said_back(&mut open);
}

/// Clients that connect five hundred times a second, as far as the machine permits, and what became of it.
#[derive(Default)]
struct Load {
    is_over: AtomicBool,
    served: AtomicUsize,
    failures: Mutex<Vec<String>>,
}

impl Load {
    const THREADS: u32 = 8;

    /// Until it is over. Threads are in the namespace of the one that starts them.
    fn connect_repeatedly(&self) {
        const INTERVAL: Duration = Duration::from_millis(2);
        let begin = Instant::now();
        let of_thread = |first: u32| {
            for number in (first..).step_by(Self::THREADS as usize) {
                let due = begin + INTERVAL * number;
                std::thread::park_timeout(due.saturating_duration_since(Instant::now()));
                if self.is_over.load(Ordering::Relaxed) {
                    return;
                }
                match ask_once(SocketAddr::new(ip(NODE), 30080)) {
                    Ok(()) => drop(self.served.fetch_add(1, Ordering::Relaxed)),
                    Err(error) => self.failures.lock().expect("the failures").push(error.to_string()),
                }
            }
        };
        let of_thread = &of_thread;
        std::thread::scope(|scope| {
            (0..Self::THREADS).for_each(|first| drop(scope.spawn(move || of_thread(first))));
        });
    }

    /// Until so many more connections have been served, however busy the machine is.
    fn wait_for_more(&self, connections: usize) {
        let enough = self.served() + connections;
        until(|| {
            std::thread::park_timeout(Duration::from_millis(10));
            (self.served() >= enough).then_some(())
        });
    }

    fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    fn served(&self) -> usize {
        self.served.load(Ordering::Relaxed)
    }

    fn failures(&self) -> Vec<String> {
        self.failures.lock().expect("the failures").clone()
    }
}

/// A connection that is answered.
fn ask_once(to: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&to, Duration::from_secs(10))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"hello")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)
}
