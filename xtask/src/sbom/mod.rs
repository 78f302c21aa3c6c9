//! A software bill of materials in CycloneDX's form: every crate that is linked into the program, with its licence and checksum, and the
//! libraries of the C toolchain that a static program holds too.
//!
//! What is linked comes from cargo (`linked`), never from a list that is kept by hand. Starts at [`run`]; `document` writes it down.

mod document;
mod linked;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};

use crate::arguments::{Arguments, seconds_since_1970};

use document::{Subject, document};
use linked::{Component, Linked};

const NAMES: [&str; 5] = ["program", "target", "created", "libraries", "out"];

/// Writes the bill of materials of a built program.
pub fn run(root: &Path, words: &[&str]) -> Result<()> {
    let arguments = Arguments::parse(words, &NAMES)?;
    let program = arguments.required("program")?;
    let subject = Subject {
        program: fs::read(program).with_context(|| format!("reading the program {program}"))?,
        created: seconds_since_1970(arguments.required("created")?)?,
    };
    let mut linked = Linked::by_cargo(root, arguments.required("target")?)?;
    let libraries = arguments.optional("libraries").unwrap_or_default();
    for library in libraries.split(',').filter(|library| !library.is_empty()) {
        let (name, version) =
            library.split_once('@').with_context(|| format!("{library:?} has no @version"))?;
        linked.components.push(Component::library(name, version));
    }
    let out = arguments.required("out")?;
    let text = serde_json::to_string_pretty(&document(&subject, &linked)?)? + "\n";
    fs::write(out, text).with_context(|| format!("writing {out}"))?;
    println!("{} components in {out}", linked.components.len());
    Ok(())
}

#[cfg(test)]
mod tests;
