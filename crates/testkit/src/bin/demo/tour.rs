//! The steps of the tour.

use std::path::Path;
use std::time::{Duration, Instant};

use ferrule_testkit::Program;

use crate::report::Report;
use crate::stage::{ASKING_POD, CLIENT, Counts, NODE, PODS, Stage, Target, example, ip, notifications};

const WEB: Target = Target { address: "10.96.0.10", port: 80 };
const CART: Target = Target { address: "10.96.0.20", port: 80 };
const NODE_PORT: Target = Target { address: NODE, port: 30080 };
const TIMEOUT: Duration = Duration::from_secs(10);

const WORLD: &str = "
   client 203.0.113.5 ───── node-a 192.0.2.10 ──┬── pod 10.244.1.11 :8080
                            │ ferrule           ├── pod 10.244.1.12 :8080
   examples/standalone ────►│ --manifests       ├── pod 10.244.1.13 :8080
                                                └── pod 10.244.1.100 (asks)

   Service web   10.96.0.10:80, NodePort 30080     all three pods
   Service cart  10.96.0.20:80, session affinity   all three pods
";

/// Runs all steps.
pub fn run(ferrule: &Path) -> Result<Report, String> {
    println!("A node, four pods and an outside client, each in a network namespace:\n{WORLD}");
    let stage = Stage::set(ferrule)?;
    let mut report = Report::default();
    let program = begin(&stage, &mut report)?;
    spread(&stage, &mut report)?;
    node_port(&stage, &mut report)?;
    affinity(&stage, &mut report)?;
    endpoint_leaves(&stage, &mut report)?;
    flush(&stage, &program, &mut report)?;
    restart(&stage, program, &mut report)?;
    Ok(report)
}

fn step(number: usize, title: &str, what: &str) {
    println!("\n{number}. {title}\n   {what}");
}

fn begin(stage: &Stage, report: &mut Report) -> Result<Program, String> {
    step(
        1,
        "Start",
        "ferrule --manifests DIR, no API server, no cluster; then a connection to 10.96.0.10:80.",
    );
    let began = Instant::now();
    let program = stage.start()?;
    stage.until(WEB, |counts| counts.lost == 0)?;
    let took = began.elapsed();
    report.note(
        "serves the folder's Services",
        true,
        format!("first answer {} ms after the start", took.as_millis()),
    );
    Ok(program)
}

fn spread(stage: &Stage, report: &mut Report) -> Result<(), String> {
    step(
        2,
        "ClusterIP",
        "300 connections from a pod to 10.96.0.10:80 spread over three endpoints, which see the pod's address.",
    );
    let counts = stage.connect(ASKING_POD, WEB, 300)?;
    let even = PODS.iter().all(|pod| counts.answered.get(&ip(pod)).is_some_and(|count| *count >= 60));
    let kept = counts.sources.keys().eq([&ip(ASKING_POD)]);
    report.note("a ClusterIP spreads connections", even && kept && counts.lost == 0, counts.shown());
    Ok(())
}

fn node_port(stage: &Stage, report: &mut Report) -> Result<(), String> {
    step(
        3,
        "NodePort",
        "60 connections from outside to 192.0.2.10:30080; endpoints see the node, so that answers come back through it.",
    );
    let counts = stage.connect(CLIENT, NODE_PORT, 60)?;
    let masqueraded = !counts.sources.contains_key(&ip(CLIENT));
    report.note("a NodePort serves the outside", masqueraded && counts.lost == 0, counts.shown());
    Ok(())
}

fn affinity(stage: &Stage, report: &mut Report) -> Result<(), String> {
    step(
        4,
        "Session affinity",
        "20 connections from one client to 10.96.0.20:80 all meet the same endpoint.",
    );
    let first = stage.connect(ASKING_POD, CART, 1)?;
    let rest = stage.connect(ASKING_POD, CART, 19)?;
    let same = first.answered.keys().eq(rest.answered.keys()) && rest.lost == 0;
    report.note("a client stays with its endpoint", same, rest.shown());
    Ok(())
}

fn endpoint_leaves(stage: &Stage, report: &mut Report) -> Result<(), String> {
    step(
        5,
        "An endpoint leaves",
        "10.244.1.12 is taken out of web.yaml; new connections go to the other two.",
    );
    let leaving = "- addresses: [10.244.1.12]\n  nodeName: node-a\n";
    let began = Instant::now();
    stage.write("web.yaml", &example("web.yaml")?.replace(leaving, ""))?;
    let is_gone = |counts: &Counts| !counts.answered.contains_key(&ip(PODS[1]));
    let settled = loop {
        // Sixty in a row that all miss it: by chance that happens once in ten thousand million times.
        let counts = stage.connect(ASKING_POD, WEB, 60)?;
        if is_gone(&counts) || began.elapsed() > TIMEOUT {
            break began.elapsed();
        }
    };
    let counts = stage.connect(ASKING_POD, WEB, 300)?;
    let text = format!("{}; at most {} ms after the edit", counts.shown(), settled.as_millis());
    report.note("an endpoint that leaves gets nothing new", is_gone(&counts) && counts.lost == 0, text);
    Ok(())
}

fn flush(stage: &Stage, program: &Program, report: &mut Report) -> Result<(), String> {
    step(6, "Another program deletes the rules", "Both of Ferrule's tables are deleted behind its back.");
    let said = program.said();
    let began = Instant::now();
    stage.flush()?;
    stage.until(WEB, |counts| counts.lost == 0)?;
    let healed = began.elapsed();
    let [line, other] = ["IPv4", "IPv6"].map(|family| {
        let text = format!("Another program changed our rules, repaired\" family=\"{family}\"");
        program.wait_for(&text, said, TIMEOUT)
    });
    println!(
        "   log: {}",
        line.as_deref().and_then(|line| line.split_once("] ")).map_or("", |(_, text)| text)
    );
    let well = line.is_some() && other.is_some() && healed < Duration::from_secs(1);
    report.note(
        "deleted rules come back",
        well,
        format!("served again within {} ms", healed.as_millis().max(1)),
    );
    Ok(())
}

fn restart(stage: &Stage, program: Program, report: &mut Report) -> Result<(), String> {
    step(
        7,
        "A restart",
        "Ferrule ends, connections go on, Ferrule starts again: it finds its own work and writes nothing.",
    );
    let mut watch = stage.listen()?;
    program.terminate().map_err(|error| format!("ending ferrule: {error}"))?;
    let away = stage.connect(ASKING_POD, WEB, 100)?;
    report.note("without Ferrule the rules go on", away.lost == 0, away.shown());
    let program = stage.start()?;
    let synced =
        program.wait_for("family=\"IPv6\" written=", 0, TIMEOUT).ok_or("no sync after the restart")?;
    let written = notifications(&mut watch)?.len();
    let well = written == 0 && synced.contains("outcome=\"up-to-date\"");
    report.note("a restart writes nothing", well, format!("{written} messages to the kernel's tables"));
    program.terminate().map_err(|error| format!("ending ferrule: {error}"))?;
    Ok(())
}
