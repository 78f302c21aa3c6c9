//! The packets of a story with the world they are sent in, for tests that send real ones.

use ferrule_plan::Packet;

use super::sections::Section;
use super::{StoryError, packets, tables};
use crate::World;

/// A planned world at one point of a story, and the packets sent in it.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Planned.
    pub world: World,
    /// The packets, row by row.
    pub rows: Vec<PacketRow>,
}

/// One row of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PacketRow {
    /// Its line in the story.
    pub line: usize,
    /// Every source with every destination.
    pub packets: Vec<Packet>,
    /// The outcome the story states for each, in canonical form. [`World::outcome`] is the oracle's.
    pub expected: String,
    /// The remark behind it: the rows of the specification it stands for.
    pub tags: Option<String>,
}

pub(super) fn packet_rows(section: &Section) -> Result<Vec<PacketRow>, StoryError> {
    let read = |row: tables::Row<'_>| {
        let problem = |problem: String| StoryError { line: row.line, problem };
        let [from, to, expected] = row.cells[..] else {
            return Err(problem("a packet is FROM  TO  OUTCOME".into()));
        };
        Ok(PacketRow {
            line: row.line,
            packets: packets::packets(from, to).map_err(problem)?,
            expected: packets::canonical(expected),
            tags: row.remark.map(str::to_string),
        })
    };
    tables::rows(section).into_iter().map(read).collect()
}
