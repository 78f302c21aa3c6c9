//! Commands that ask: `ferrule status`, `plan`, `explain`, `diff`, `top`.
//!
//! They ask the running proxy over its unix socket, or work out the answer of a folder of manifests themselves. What they print is
//! made in `tools/text.rs`, from the same answers that `-o json` shows.

mod client;
mod explanation;
mod local;
mod options;
mod table;
mod text;
mod top;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;
use std::time::Instant;

use ferrule_config::go::escaped;
use serde::Serialize;

use crate::questions::query::{self, Parameters};
use crate::questions::{
    DiffAnswer, Explanation, PacketVerdict, PlanAnswer, QuestionError, diff, explain, kernel, plan,
};
use crate::run::Source;
use crate::run::offline::KernelUse;
use client::Client;
pub use options::{COMMANDS, Command};
use options::{Format, Given};
use table::Style;

/// A command found a difference, or a packet that reaches no endpoint.
const NO: u8 = 1;
/// The command could not be understood, or there is no answer.
const FAILED: u8 = 2;

/// Why a command has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
struct ToolError(String);

impl From<QuestionError> for ToolError {
    fn from(error: QuestionError) -> Self {
        Self(error.to_string())
    }
}

/// What a command found.
struct Found {
    text: String,
    code: u8,
}

/// Runs a command with the arguments after its name.
pub fn run(program: &str, command: Command, arguments: &[String]) -> ExitCode {
    let given = match Given::parse(command, arguments) {
        Ok(given) if given.help => return print(&options::help(program, command), 0),
        Ok(given) => given,
        Err(problem) => {
            let usage = options::usage(program, command);
            return complain(&format!(
                "Error: {problem}\n{usage}\nMore: {program} {} --help",
                command.name()
            ));
        }
    };
    let found = match command {
        Command::Status if given.has("watch") => watched_status(&given),
        Command::Status => status(&given),
        Command::Plan => plan_table(&given),
        Command::Explain => explained(&given),
        Command::Diff => differences(&given),
        Command::Top => top::run(&given),
    };
    match found {
        Ok(found) => print(&found.text, found.code),
        Err(error) => complain(&format!("Error: {error}")),
    }
}

fn status(given: &Given) -> Result<Found, ToolError> {
    let answer: serde_json::Value = Client::of(given).ask("status", &Parameters::default())?;
    let is_in_sync = text::is_in_sync(&answer);
    let text = rendered(given, &answer, |style| text::status(&answer, style))?;
    Ok(Found { text, code: if is_in_sync { 0 } else { NO } })
}

/// Prints the status after each interval, until its output is closed or the proxy does not answer.
fn watched_status(given: &Given) -> Result<Found, ToolError> {
    let interval = top::interval_of(given)?;
    loop {
        let began = Instant::now();
        let found = status(given)?;
        if !top::show(&found.text, io::stdout().is_terminal()) {
            return Ok(Found { text: String::new(), code: found.code });
        }
        while let Some(rest) = interval.checked_sub(began.elapsed()).filter(|rest| !rest.is_zero()) {
            std::thread::park_timeout(rest);
        }
    }
}

fn plan_table(given: &Given) -> Result<Found, ToolError> {
    let mut parameters = Parameters::default();
    for name in ["namespace", "service", "address", "limit"] {
        if let Some(value) = given.value(name) {
            parameters.set(name, value);
        }
    }
    let answer: PlanAnswer = match local::source(given) {
        None => Client::of(given).ask("plan", &parameters)?,
        Some(source) => {
            let question = query::plan_question(&parameters)?;
            plan::answer(&local::snapshot(given, &source, KernelUse::None)?, &question)
        }
    };
    let text = rendered(given, &answer, |style| text::plan(&answer, style))?;
    Ok(Found { text, code: 0 })
}

fn explained(given: &Given) -> Result<Found, ToolError> {
    let mut parameters = given.packet()?;
    let answer: Explanation = match local::source(given) {
        None => {
            if given.has("no-kernel") {
                parameters.set("kernel", "false");
            }
            Client::of(given).ask("explain", &parameters)?
        }
        Some(source) => explained_locally(given, &source, &parameters)?,
    };
    let code = if answer.verdict == PacketVerdict::Forward { 0 } else { NO };
    let text = rendered(given, &answer, |style| explanation::text(&answer, style))?;
    Ok(Found { text, code })
}

fn explained_locally(
    given: &Given,
    source: &Source,
    parameters: &Parameters,
) -> Result<Explanation, ToolError> {
    let question = query::explain_question(parameters)?;
    let kernel_use = if given.has("kernel") { KernelUse::ThisHost } else { KernelUse::None };
    let snapshot = local::snapshot(given, source, kernel_use)?;
    let explained = explain::answer(&snapshot.explainer(), snapshot.mode, &question)?;
    let (verdict, detail) = match kernel_use {
        KernelUse::ThisHost => kernel::answer(&snapshot, &explained),
        KernelUse::None => {
            kernel::unknown("not compared with a kernel; --kernel does so on this host".to_owned())
        }
    };
    Ok(Explanation { kernel: verdict, kernel_detail: detail, ..explained.answer })
}

fn differences(given: &Given) -> Result<Found, ToolError> {
    let answer = match local::source(given) {
        None => Client::of(given).ask("diff", &Parameters::default())?,
        Some(source) => difference_of(given, &source)?,
    };
    let has_errors = answer.families.values().any(|family| family.error.is_some());
    let is_empty = answer.families.values().all(|family| family.lines.is_empty());
    let code = if has_errors {
        FAILED
    } else if is_empty {
        0
    } else {
        NO
    };
    let text = rendered(given, &answer, |style| text::diff(&answer, style))?;
    Ok(Found { text, code })
}

/// The running proxy plans a folder with its own settings. Without one, and for a cluster, those of the command line count.
fn difference_of(given: &Given, source: &Source) -> Result<DiffAnswer, ToolError> {
    let client = Client::of(given);
    if let Source::Manifests(folder) = source
        && client.is_answered()
    {
        let failed = |error| ToolError(format!("{}: {error}", folder.display()));
        let mut parameters = Parameters::default();
        parameters.set("manifests", std::fs::canonicalize(folder).map_err(failed)?.to_string_lossy());
        return client.ask("diff", &parameters);
    }
    let snapshot = local::snapshot(given, source, KernelUse::ThisHost)?;
    let answer = diff::answer(&snapshot);
    let answer =
        answer.ok_or_else(|| ToolError("in this mode only a running proxy knows its sockets".to_owned()))?;
    let with = match source {
        Source::Manifests(_) => "manifests",
        Source::Server { .. } => "cluster",
    };
    Ok(DiffAnswer { with: with.to_owned(), ..answer })
}

fn rendered<T: Serialize>(
    given: &Given,
    answer: &T,
    text: impl FnOnce(Style) -> String,
) -> Result<String, ToolError> {
    let failed = |error: String| ToolError(format!("writing the answer: {error}"));
    match given.format {
        Format::Json => {
            let json = serde_json::to_string_pretty(answer).map_err(|error| failed(error.to_string()))?;
            Ok(json + "\n")
        }
        Format::Yaml => serde_saphyr::to_string(answer).map_err(|error| failed(error.to_string())),
        Format::Text | Format::Wide => {
            let is_colored = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
            Ok(text(Style { is_wide: given.format == Format::Wide, is_colored }))
        }
    }
}

/// A closed pipe is the reader's choice and no error.
fn print(text: &str, code: u8) -> ExitCode {
    let _ = io::stdout().write_all(text.as_bytes());
    ExitCode::from(code)
}

fn complain(text: &str) -> ExitCode {
    let _ = writeln!(io::stderr(), "{}", escaped(text, &['\n']));
    ExitCode::from(FAILED)
}

#[cfg(test)]
mod tests;
