//! A cluster on which the proxies differ, made as small as it can be while they still do, and told as a story.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use ferrule_plan::Packet;
use ferrule_testkit::World;

use crate::comparison::{Difference, compare, destination};
use crate::pair::Pair;

/// Every attempt takes a second or more, and several where packets vanish.
const PATIENCE: Duration = Duration::from_mins(3);

/// A world of these lines; none if they say nothing.
pub fn world(proxy: &str, lines: &[String]) -> Option<World> {
    let mut world = World::default();
    world.run_proxy(proxy).ok()?;
    world.say(&lines.join("\n")).ok()?;
    world.settle();
    Some(world)
}

/// The story of a difference.
pub fn story(pair: &mut Pair, proxy: &str, lines: Vec<String>, difference: &Difference) -> String {
    let packet = &difference.packet;
    let mut differs = |lines: &[String]| differs(pair, proxy, lines, packet);
    if !differs(&lines) {
        return format!(
            "# Alone this cluster does not show it: it takes what was there before.\n{}",
            lines.join("\n")
        );
    }
    let small = smaller(lines, &mut differs);
    format!(
        "# {} and kube-proxy differ.\n-- proxy --\n{proxy}\n-- cluster --\n{}\n-- packets --\nFROM  TO  OUTCOME\n{}  {}  # {}\n",
        "Ferrule",
        small.join("\n"),
        packet.from,
        destination(packet),
        difference.to_string().replace('\n', ";")
    )
}

/// Leaves out Services with all of theirs, then lines, then fields of lines, as long as it still differs.
fn smaller(mut lines: Vec<String>, differs: &mut impl FnMut(&[String]) -> bool) -> Vec<String> {
    let give_up = Instant::now() + PATIENCE;
    let names: BTreeSet<String> = lines.iter().skip(1).map(|line| subject(line).to_owned()).collect();
    for name in names {
        let fewer: Vec<String> = lines.iter().filter(|line| subject(line) != name).cloned().collect();
        if Instant::now() < give_up && differs(&fewer) {
            lines = fewer;
        }
    }
    let mut at = lines.len();
    while at > 1 && Instant::now() < give_up {
        at -= 1;
        let mut fewer = lines.clone();
        fewer.remove(at);
        if differs(&fewer) {
            lines = fewer;
        }
    }
    for at in 1..lines.len() {
        let mut field = lines[at].split("  ").count();
        while field > 2 && Instant::now() < give_up {
            field -= 1;
            let mut fields: Vec<&str> = lines[at].split("  ").collect();
            fields.remove(field);
            let mut fewer = lines.clone();
            fewer[at] = fields.join("  ");
            if differs(&fewer) {
                lines = fewer;
            }
        }
    }
    lines
}

/// The second word of a line: whom it is about.
fn subject(line: &str) -> &str {
    line.split_whitespace().nth(1).unwrap_or_default()
}

fn differs(pair: &mut Pair, proxy: &str, lines: &[String], packet: &Packet) -> bool {
    let Some(world) = world(proxy, lines) else { return false };
    pair.settle(&world).is_ok() && !compare(pair, &world, vec![packet.clone()]).different.is_empty()
}
