//! The program itself on large folders of manifests: time to the first sync, restart, and memory.
//!
//! `make bench` prints one table at the end. Runs in a network namespace of its own.
#![allow(clippy::print_stdout, reason = "this program prints a table")]

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ferrule_testkit::Program;
use ferrule_testkit::netns::{Namespace, available};

const PATIENCE: Duration = Duration::from_mins(5);
/// So many Services with their slices are in one file.
const PER_FILE: u32 = 500;

fn main() -> ExitCode {
    if let Err(reason) = available() {
        println!("skipped: {reason}");
        return ExitCode::SUCCESS;
    }
    let mut rows = Vec::new();
    for (services, endpoints) in [(1_000, 10), (10_000, 10), (30_000, 5)] {
        println!("{services} services x {endpoints} endpoints …");
        match measured(services, endpoints) {
            Ok(row) => rows.push(row),
            Err(problem) => {
                println!("{problem}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!(
        "\n{:24} {:>9} {:>14} {:>9} {:>14} {:>9} {:>9}",
        "", "start", "of it reading", "restart", "of it reading", "RSS", "peak"
    );
    for row in &rows {
        println!("{row}");
    }
    ExitCode::SUCCESS
}

fn measured(services: u32, endpoints: u32) -> Result<String, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    write(folder.path(), services, endpoints).map_err(|error| error.to_string())?;
    let node = Namespace::new("node").map_err(|error| error.with_sources())?;
    let first = run(&node, folder.path())?;
    let again = run(&node, folder.path())?;
    if !again.adopted {
        return Err("the restart wrote something".to_owned());
    }
    let shown = |took: Duration| format!("{:.0} ms", took.as_secs_f64() * 1000.0);
    Ok(format!(
        "{:24} {:>9} {:>14} {:>9} {:>14} {:>9} {:>9}",
        format!("{services} x {endpoints}"),
        shown(first.whole),
        first.reading,
        shown(again.whole),
        again.reading,
        first.resident,
        first.peak,
    ))
}

struct Run {
    whole: Duration,
    reading: String,
    resident: String,
    peak: String,
    adopted: bool,
}

/// From the start of the process to the last family's first sync.
fn run(node: &Namespace, folder: &Path) -> Result<Run, String> {
    let folder = folder.to_string_lossy().into_owned();
    let arguments = ["--manifests", &folder, "--hostname-override=a", "--cluster-cidr=10.128.0.0/9", "-v=2"];
    let began = Instant::now();
    let program = Program::start(node, Path::new(env!("CARGO_BIN_EXE_ferrule")), &arguments)
        .map_err(|error| error.with_sources())?;
    let synced = program.wait_for("family=\"IPv6\" written=", 0, PATIENCE);
    let whole = began.elapsed();
    if synced.is_none() {
        return Err(format!("no first sync:\n{}", program.log().join("\n")));
    }
    let log = program.log().join("\n");
    let reading = log.split_once("Read manifests").and_then(|(_, rest)| rest.split_once("took=\""));
    let reading = reading.and_then(|(_, rest)| rest.split('"').next()).unwrap_or("?").to_owned();
    let adopted = !log.contains("Rules written");
    // Memory is given back after the first sync; the next one shows that this is done.
    let said = program.said();
    let later = Path::new(&folder).join(format!("later-{}.json", program.id()));
    fs::write(&later, service(90_000)).map_err(|error| error.to_string())?;
    let next = program.wait_for("Synced", said, PATIENCE);
    let (resident, peak) = memory(program.id());
    let said = program.said();
    fs::remove_file(&later).map_err(|error| error.to_string())?;
    if next.is_none() || program.wait_for("Synced", said, PATIENCE).is_none() {
        return Err("no sync after a change".to_owned());
    }
    program.terminate().map_err(|error| error.to_string())?;
    Ok(Run { whole, reading, resident, peak, adopted })
}

fn memory(process: u32) -> (String, String) {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes: f64 =
            line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0.0);
        format!("{:.0} MiB", kilobytes / 1024.0)
    };
    (field("VmRSS:"), field("VmHWM:"))
}

fn write(folder: &Path, services: u32, endpoints: u32) -> std::io::Result<()> {
    for first in (0..services).step_by(usize::try_from(PER_FILE).unwrap_or(1)) {
        let mut items = Vec::new();
        for number in first..(first + PER_FILE).min(services) {
            items.push(service(number));
            items.push(slice(number, endpoints));
        }
        let list = format!("{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[{}]}}", items.join(","));
        fs::write(folder.join(format!("services-{first}.json")), list)?;
    }
    Ok(())
}

fn service(number: u32) -> String {
    let ip = std::net::Ipv4Addr::from(0x0a60_0001 + number);
    format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"Service\",\"metadata\":{{\"name\":\"service-{number}\",\"namespace\":\"bench\"}},\
         \"spec\":{{\"clusterIP\":\"{ip}\",\"ports\":[{{\"name\":\"http\",\"port\":80,\"targetPort\":8080}}]}}}}"
    )
}

fn slice(number: u32, endpoints: u32) -> String {
    let mut items = String::new();
    for endpoint in 0..endpoints {
        let ip = std::net::Ipv4Addr::from(0x0a80_0001 + number * endpoints + endpoint);
        let comma = if endpoint == 0 { "" } else { "," };
        let _ = write!(
            items,
            "{comma}{{\"addresses\":[\"{ip}\"],\"nodeName\":\"node-{}\",\"conditions\":{{\"ready\":true}}}}",
            number % 1000
        );
    }
    format!(
        "{{\"apiVersion\":\"discovery.k8s.io/v1\",\"kind\":\"EndpointSlice\",\"metadata\":{{\"name\":\"service-{number}-a\",\"namespace\":\"bench\",\
         \"labels\":{{\"kubernetes.io/service-name\":\"service-{number}\"}}}},\"addressType\":\"IPv4\",\
         \"ports\":[{{\"name\":\"http\",\"port\":8080}}],\"endpoints\":[{items}]}}"
    )
}
