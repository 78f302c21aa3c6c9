//! What a start cost.

use std::time::Duration;

use ferrule_testkit::Program;
use ferrule_testkit::netns::Namespace;

pub struct Measured {
    pub took: Duration,
    pub cpu: Duration,
    pub resident: f64,
    pub written: u64,
}

impl Measured {
    pub fn of(node: &Namespace, program: &Program, took: Duration) -> Self {
        let metrics = node.page(10249, "/metrics").unwrap_or_default();
        let lines = metrics.lines().filter(|line| line.starts_with("ferrule_initial_sync_objects_written{"));
        let written = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok()).sum();
        Self { took, cpu: program.processor_time(), resident: program.resident().0, written }
    }
}
