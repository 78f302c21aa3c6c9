//! Runs, blesses and shows stories: `story run [NAME…]`, `story bless [NAME…]`, `story show NAME`.
//!
//! Does no more than find the files and print; the work is in the library.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this program talks to a terminal")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use ferrule_testkit::{Story, stories_in};

const USAGE: &str = "usage: story run [NAME…] | bless [NAME…] | show NAME";

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let result = match arguments.split_first() {
        Some((command, names)) if command == "run" => run(names),
        Some((command, names)) if command == "bless" => bless(names),
        Some((command, names)) if command == "show" && !names.is_empty() => show(names),
        _ => Err(USAGE.to_string()),
    };
    result.unwrap_or_else(|problem| {
        eprintln!("story: {problem}");
        ExitCode::from(2)
    })
}

fn run(names: &[String]) -> Result<ExitCode, String> {
    let (mut passed, mut failed, mut questions) = (0, 0, 0);
    for path in chosen(names)? {
        let findings = match read(&path) {
            Ok(story) => {
                questions += story.questions();
                let findings = story.run().map_err(|error| error.to_string());
                findings.map(|findings| findings.iter().map(ToString::to_string).collect::<Vec<_>>())
            }
            Err(problem) => Err(problem),
        };
        match findings.unwrap_or_else(|problem| vec![problem]) {
            findings if findings.is_empty() => {
                passed += 1;
                println!("ok      {}", short(&path));
            }
            findings => {
                failed += 1;
                println!("FAILED  {}", short(&path));
                for finding in findings {
                    println!("  {finding}");
                }
            }
        }
    }
    println!("\n{questions} packets and flows asked about");
    println!("stories: {passed} passed, {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Rewrites derived sections. What people wrote stays; if it is wrong, `run` says so.
fn bless(names: &[String]) -> Result<ExitCode, String> {
    let (mut changed, mut failed) = (0, 0);
    for path in chosen(names)? {
        match bless_one(&path) {
            Ok(false) => {}
            Ok(true) => {
                println!("blessed {}", short(&path));
                changed += 1;
            }
            Err(problem) => {
                eprintln!("story: {problem}");
                failed += 1;
            }
        }
    }
    println!("{changed} stories changed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether the story had to be changed.
fn bless_one(path: &Path) -> Result<bool, String> {
    let blessed = read(path)?.blessed().map_err(|error| format!("{}: {error}", short(path)))?;
    let before = fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    if blessed == before {
        return Ok(false);
    }
    fs::write(path, blessed).map_err(|error| format!("writing {}: {error}", path.display()))?;
    Ok(true)
}

/// Prints a story with everything derived, whether or not the file says so.
fn show(names: &[String]) -> Result<ExitCode, String> {
    for path in chosen(names)? {
        let story = read(&path)?;
        println!("{}", story.blessed().map_err(|error| format!("{}: {error}", short(&path)))?);
        let findings = story.run().map_err(|error| error.to_string())?;
        if !findings.is_empty() {
            for finding in &findings {
                println!("NOT SO: {finding}");
            }
            return Ok(ExitCode::FAILURE);
        }
        println!("All of it is so: every packet above was put to the plan.");
    }
    Ok(ExitCode::SUCCESS)
}

/// The stories of the given names, or all of them.
fn chosen(names: &[String]) -> Result<Vec<PathBuf>, String> {
    let folder = stories_folder();
    let all = stories_in(&folder).map_err(|error| format!("reading {}: {error}", folder.display()))?;
    if names.is_empty() {
        return Ok(all);
    }
    let mut found = Vec::new();
    for name in names {
        let wanted = name.trim_start_matches("stories/").trim_end_matches(".story");
        let is_wanted =
            |path: &&PathBuf| short(path) == wanted || path.file_stem().is_some_and(|stem| stem == wanted);
        let path = all.iter().find(is_wanted).cloned().or_else(|| given_file(name));
        found.push(path.ok_or_else(|| format!("there is no story \"{name}\" under {}", folder.display()))?);
    }
    Ok(found)
}

/// A story file anywhere else may be named by its path.
fn given_file(name: &str) -> Option<PathBuf> {
    Some(PathBuf::from(name))
        .filter(|path| path.is_file() && path.extension().is_some_and(|end| end == "story"))
}

fn read(path: &Path) -> Result<Story, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("reading {}: {error}", path.display()))?;
    Story::parse(&text).map_err(|error| format!("{}: {error}", short(path)))
}

/// The story's name: its path below the stories folder, without the ending.
fn short(path: &Path) -> String {
    path.strip_prefix(stories_folder()).unwrap_or(path).with_extension("").display().to_string()
}

fn stories_folder() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).join("stories")
}
