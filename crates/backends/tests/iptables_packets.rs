//! Real packets through a node programmed in iptables mode: what becomes of them is what the oracle says.
#![allow(clippy::print_stdout, reason = "a test that could not ask something says so")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use ferrule_kernel::iptables::Variant;
use ferrule_testkit::netns::{NetSpec, NetWorld, Question, or_skip};
use ferrule_testkit::{Scene, Story, stories_in};
use support::iptables::{has_iptables, program};

fn packet_stories() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stories/packets-iptables");
    stories_in(&folder).expect("the stories folder")
}

fn scenes(path: &Path) -> Vec<Scene> {
    let text = fs::read_to_string(path).expect("a story file");
    Story::parse(&text).and_then(|story| story.scenes()).expect("a story that runs")
}

/// Every packet of a scene as a question to the kernel.
fn questions(scene: &Scene) -> Vec<Question> {
    let packets = scene.rows.iter().flat_map(|row| &row.packets);
    packets.map(|packet| Question { packet: packet.clone(), expected: scene.world.outcome(packet) }).collect()
}

/// Asks one story's packets; says how many agreed, which could not be asked, and which were not as told.
fn ask(path: &Path, variant: Variant) -> (usize, Vec<String>, Vec<String>) {
    let scenes = scenes(path);
    let net =
        NetWorld::build(NetSpec::of_scenes(&scenes)).map_err(|error| error.with_sources()).expect("a world");
    let (mut agreed, mut unasked, mut wrong) = (0, Vec::new(), Vec::new());
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    for scene in &scenes {
        program(&net, &scene.world, variant);
        let answers = net.ask(&questions(scene)).expect("probes");
        agreed += answers.agreed;
        unasked.extend(answers.unasked.iter().map(|question| format!("{name}: {question}")));
        wrong.extend(answers.disagreements.iter().map(|question| format!("{name}: {question}")));
    }
    (agreed, unasked, wrong)
}

fn all_stories(variant: Variant) {
    if !or_skip() || !has_iptables() {
        return;
    }
    let (mut agreed, mut unasked, mut wrong) = (0, Vec::new(), Vec::new());
    for path in packet_stories() {
        let (good, not_here, bad) = ask(&path, variant);
        agreed += good;
        unasked.extend(not_here);
        wrong.extend(bad);
    }
    println!("{agreed} packets agreed; not asked here:\n{}", unasked.join("\n"));
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), agreed + wrong.len(), wrong.join("\n"));
    assert!(agreed >= 80, "only {agreed} packets were asked about");
    let asks_all = std::env::var_os("FERRULE_TEST_EVERY_PACKET").is_some();
    assert!(!asks_all || unasked.is_empty(), "not asked: {}", unasked.join("\n"));
}

#[test]
fn packets_of_the_iptables_stories_find_what_the_oracle_says() {
    all_stories(Variant::Nft);
}

#[test]
fn the_same_with_the_legacy_variant() {
    all_stories(Variant::Legacy);
}
