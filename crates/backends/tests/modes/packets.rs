//! Real packets through a node that the mode serves: what becomes of them is what the oracle says.

use std::fs;
use std::path::Path;

use ferrule_testkit::netns::{NetSpec, Question};
use ferrule_testkit::{Scene, Story, stories_in};

use crate::mode::Mode;

/// Sends every packet of the mode's stories.
pub fn check(mode: &Mode) {
    if !mode.is_testable() {
        return;
    }
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../stories").join(mode.stories);
    let mut sent = Sent::default();
    for path in stories_in(&folder).expect("the stories folder") {
        send(mode, &path, &mut sent);
    }
    let Sent { agreed, unasked, wrong } = sent;
    println!("{agreed} packets agreed; not asked here:\n{}", unasked.join("\n"));
    assert!(wrong.is_empty(), "{} of {} wrong:\n{}", wrong.len(), agreed + wrong.len(), wrong.join("\n"));
    assert!(agreed >= mode.min_packets, "only {agreed} packets were asked about");
    // Set where the kernel has every protocol, as the one of `scripts/vm` does.
    let asks_all = std::env::var_os("FERRULE_TEST_EVERY_PACKET").is_some();
    assert!(!asks_all || unasked.is_empty(), "not asked: {}", unasked.join("\n"));
}

#[derive(Default)]
struct Sent {
    agreed: usize,
    /// What this machine cannot send.
    unasked: Vec<String>,
    wrong: Vec<String>,
}

/// Sends the packets of one story.
fn send(mode: &Mode, path: &Path, sent: &mut Sent) {
    let text = fs::read_to_string(path).expect("a story file");
    let scenes = Story::parse(&text).and_then(|story| story.scenes()).expect("a story that runs");
    let net = mode.network(NetSpec::of_scenes(&scenes));
    let name = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
    for scene in &scenes {
        let _serving = mode.program(&net, &scene.world);
        let answers = net.ask(&questions(scene)).expect("probes");
        sent.agreed += answers.agreed;
        sent.unasked.extend(answers.unasked.iter().map(|question| format!("{name}: {question}")));
        sent.wrong.extend(answers.disagreements.iter().map(|question| format!("{name}: {question}")));
    }
}

/// Every packet of a scene as a question to the kernel.
fn questions(scene: &Scene) -> Vec<Question> {
    let packets = scene.rows.iter().flat_map(|row| &row.packets);
    packets.map(|packet| Question { packet: packet.clone(), expected: scene.world.outcome(packet) }).collect()
}
