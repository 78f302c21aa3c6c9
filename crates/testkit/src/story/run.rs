//! Runs a story from its first section to its last.

use std::fmt;

use ferrule_backends::ipvs;
use ferrule_model::IpFamily;
use ferrule_plan::{PlanDelta, StaleFlows, show, show_delta, show_node};

use super::scenes::{self, Scene};
use super::sections::{Derived, Kind, Program, Section};
use super::{Story, StoryError, flows, packets, tables};
use crate::world::{Step, World, WorldError};

/// One deviation from the story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The line of the story.
    pub line: usize,
    /// What the story states.
    pub expected: String,
    /// The actual result.
    pub found: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.expected.contains('\n') || self.found.contains('\n') {
            write!(f, "line {}:\n{}", self.line, difference(&self.expected, &self.found))
        } else {
            write!(f, "line {}: expected {}, found {}", self.line, self.expected, self.found)
        }
    }
}

/// Both texts from the first line that differs to the last, with `-` before the expected and `+` before the actual lines.
fn difference(expected: &str, found: &str) -> String {
    let (mut expected, mut found): (Vec<&str>, Vec<&str>) =
        (expected.lines().collect(), found.lines().collect());
    let same = |(expected, found): &(&&str, &&str)| expected == found;
    let before = expected.iter().zip(&found).take_while(same).count();
    expected.drain(..before);
    found.drain(..before);
    let after = expected.iter().rev().zip(found.iter().rev()).take_while(same).count();
    expected.truncate(expected.len() - after);
    found.truncate(found.len() - after);
    let gone = expected.iter().map(|line| format!("  - {line}"));
    let new = found.iter().map(|line| format!("  + {line}"));
    gone.chain(new).collect::<Vec<_>>().join("\n")
}

/// The state of a run.
pub(super) struct Run {
    world: World,
    step: Step,
    /// Whether there are statements that are not planned yet.
    unplanned: bool,
    /// For each derived section, its current text.
    pub derived: Vec<Option<String>>,
    /// For each section of packets, the world it is about.
    pub scenes: Vec<Scene>,
    pub findings: Vec<Finding>,
}

impl Run {
    pub(super) fn over(story: &Story) -> Result<Self, StoryError> {
        let mut run = Self {
            world: World::default(),
            step: Step::default(),
            unplanned: true,
            derived: Vec::new(),
            scenes: Vec::new(),
            findings: Vec::new(),
        };
        for section in &story.sections {
            run.section(section)?;
        }
        run.settle(story.sections.last().map_or(1, |section| section.line));
        Ok(run)
    }

    fn section(&mut self, section: &Section) -> Result<(), StoryError> {
        let mut derived = None;
        match &section.kind {
            Kind::Proxy => self.say(section, World::run_proxy)?,
            Kind::Cluster => self.say(section, World::say)?,
            Kind::Objects => self.say(section, World::objects)?,
            Kind::Then(change) => self.change(section, change)?,
            Kind::Packets => self.packets(section)?,
            Kind::Flows => self.flows(section)?,
            Kind::Derived(what) => derived = Some(self.compare(section, *what)),
        }
        self.derived.push(derived);
        Ok(())
    }

    fn say(
        &mut self,
        section: &Section,
        say: impl FnOnce(&mut World, &str) -> Result<(), WorldError>,
    ) -> Result<(), StoryError> {
        self.unplanned = true;
        say(&mut self.world, &section.body)
            .map_err(|error| StoryError { line: section.line + error.line, problem: error.problem })
    }

    /// A change begins a new step: what came before is planned first. Several changes in a header are set apart by `;`.
    fn change(&mut self, section: &Section, change: &str) -> Result<(), StoryError> {
        self.settle(section.line);
        let in_header = change.replace(';', "\n");
        self.world
            .say(&in_header)
            .map_err(|error| StoryError { line: section.line, problem: error.problem })?;
        self.say(section, World::say)
    }

    /// Plans what was said, and holds the plan against one made afresh.
    fn settle(&mut self, line: usize) {
        if !std::mem::take(&mut self.unplanned) {
            return;
        }
        self.step = self.world.settle();
        let fresh = self.world.fresh_plan();
        if fresh != self.world.plan {
            self.findings.push(Finding { line, expected: show(&fresh), found: show(&self.world.plan) });
        }
    }

    fn compare(&mut self, section: &Section, what: Derived) -> String {
        self.settle(section.line);
        let mut found = self.text_of(what);
        // The blank line people leave between sections stays as they left it.
        found.push_str(
            &"\n"
                .repeat(section.body.len() - section.body.trim_end_matches('\n').len())
                .replacen('\n', "", 1),
        );
        let expected = section.body.trim_end();
        if expected != found.trim_end() {
            self.findings.push(Finding {
                line: section.line,
                expected: format!("{expected}\n"),
                found: format!("{}\n", found.trim_end()),
            });
        }
        found
    }

    fn text_of(&self, what: Derived) -> String {
        match what {
            Derived::Plan => or_nothing(show(&self.world.plan)),
            Derived::Node => self.each_family(show_node),
            Derived::Delta => self.delta(),
            Derived::Counts => self.each_family(|plan| {
                let counts = plan.no_local_endpoints();
                format!(
                    "{} without local endpoints: internal {}, external {}\n",
                    plan.node.family, counts.internal, counts.external
                )
            }),
            Derived::Diagnostics => {
                let lines: Vec<String> =
                    self.step.diagnostics.iter().map(|line| line.to_string() + "\n").collect();
                or_nothing(lines.concat())
            }
            Derived::Program(Program::Ipvs) => or_nothing(self.each_family(|plan| {
                let is_used = plan.frontends().next().is_some();
                let lines = if is_used { ipvs::program(plan) } else { Vec::new() };
                lines.into_iter().map(|line| line + "\n").collect()
            })),
        }
    }

    fn each_family(&self, text: impl Fn(&ferrule_plan::FamilyPlan) -> String) -> String {
        self.world.plan.families.iter().map(|(_, plan)| text(plan)).collect()
    }

    /// One line, or one for each family that changed.
    fn delta(&self) -> String {
        let line = |(family, delta): (IpFamily, &PlanDelta)| match family {
            IpFamily::V4 => format!("{}\n", show_delta(delta)),
            IpFamily::V6 => format!("IPv6 {}\n", show_delta(delta)),
        };
        let changed = self.step.deltas.iter().filter(|(_, delta)| !delta.is_empty());
        or_nothing(changed.map(line).collect())
    }

    fn packets(&mut self, section: &Section) -> Result<(), StoryError> {
        self.settle(section.line);
        let rows = scenes::packet_rows(section)?;
        for row in &rows {
            for packet in &row.packets {
                let found = self.world.outcome(packet).to_string();
                self.hold(row.line, row.expected.clone(), packets::canonical(&found));
            }
        }
        self.scenes.push(Scene { world: self.world.clone(), rows });
        Ok(())
    }

    fn flows(&mut self, section: &Section) -> Result<(), StoryError> {
        self.settle(section.line);
        for row in tables::rows(section) {
            let [to, answered_by, expected] = row.cells[..] else {
                return Err(StoryError {
                    line: row.line,
                    problem: "a flow is FLOW  ANSWERED BY  THEN".into(),
                });
            };
            let flow =
                flows::flow(to, answered_by).map_err(|problem| StoryError { line: row.line, problem })?;
            let family = IpFamily::of(flow.to.ip());
            let stale = self
                .world
                .family(family)
                .zip(self.step.deltas.get(family))
                .is_some_and(|(plan, delta)| StaleFlows::from_delta(plan, delta).contains(&flow));
            self.hold(row.line, expected.to_string(), if stale { "delete" } else { "keep" }.to_string());
        }
        Ok(())
    }

    fn hold(&mut self, line: usize, expected: String, found: String) {
        if expected != found {
            self.findings.push(Finding { line, expected, found });
        }
    }
}

fn or_nothing(text: String) -> String {
    if text.is_empty() { "nothing\n".into() } else { text }
}
