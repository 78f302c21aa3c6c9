//! A story: one text file that tells a situation, what follows from it, and what packets find.
//!
//! Runs a story and compares, or rewrites its derived sections. What people wrote (clusters, packets, flows) is never
//! rewritten. The words of a cluster are [`crate::World`]'s matter; the format is described in `stories/README.md`.

mod flows;
mod packets;
mod run;
mod scenes;
mod sections;
mod tables;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

pub use run::Finding;
pub use scenes::{PacketRow, Scene};

use sections::Section;

/// A story, taken apart.
#[derive(Clone, Debug)]
pub struct Story {
    /// The lines before the first section: what the story is about.
    preamble: String,
    sections: Vec<Section>,
}

/// A text that is no story.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoryError {
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong with it.
    pub problem: String,
}

impl fmt::Display for StoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.problem)
    }
}

impl std::error::Error for StoryError {}

impl Story {
    /// Takes a text apart.
    pub fn parse(text: &str) -> Result<Self, StoryError> {
        let (preamble, sections) = sections::split(text)?;
        if sections.is_empty() {
            return Err(StoryError { line: 1, problem: "a story needs a section: -- cluster --".into() });
        }
        Ok(Self { preamble, sections })
    }

    /// What the story is about: the text of its first comment lines.
    pub fn title(&self) -> String {
        let lines = self.preamble.lines().map(|line| line.trim_start_matches('#').trim());
        lines.collect::<Vec<_>>().join(" ").trim().to_string()
    }

    /// Runs the story and tells everything that is not as it says.
    pub fn run(&self) -> Result<Vec<Finding>, StoryError> {
        run::Run::over(self).map(|run| run.findings)
    }

    /// The story's text with its derived sections as they come out now.
    pub fn blessed(&self) -> Result<String, StoryError> {
        let run = run::Run::over(self)?;
        let sections = self.sections.iter().zip(&run.derived);
        let bodies = sections.map(|(section, derived)| section.text_with(derived.as_deref()));
        Ok(std::iter::once(self.preamble.clone()).chain(bodies).collect())
    }

    /// The worlds the story asks packets of, each with its packets, for tests that send them.
    pub fn scenes(&self) -> Result<Vec<Scene>, StoryError> {
        run::Run::over(self).map(|run| run.scenes)
    }

    /// How many packets and flows the story asks about.
    pub fn questions(&self) -> usize {
        self.sections.iter().filter(|section| section.is_written_by_people()).map(Section::rows).sum()
    }
}

/// The story files under a folder, sorted.
pub fn stories_in(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "story") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests;
