//! Commands of Ferrule's own: first arguments that no kube-proxy command line can have, since it takes none.
//!
//! Under the name `kube-proxy` only `completion` exists, as with the real one.

use ferrule_config::cli::completion::{self, Shell};
use ferrule_config::cli::{docs, help, man, version};
use ferrule_config::{closest, docs as config_docs};

use super::tools::{COMMANDS, Command};

const OWN: [&str; 10] =
    ["version", "completion", "man", "docs", "help", "status", "plan", "explain", "diff", "top"];
const UNDER_THE_OTHER_NAME: [&str; 1] = ["completion"];

/// The command that asks a question, with the arguments after it.
pub fn asking<'a>(program: &str, arguments: &'a [String]) -> Option<(Command, &'a [String])> {
    let (first, rest) = arguments.split_first()?;
    let command = Command::find(first).filter(|command| known(program).contains(&command.name()))?;
    Some((command, rest))
}

/// What a command prints, or what is wrong with it; `None` if the first argument is no command.
pub fn answer(program: &str, arguments: &[String]) -> Option<Result<String, String>> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (first, rest) = words.split_first()?;
    if !known(program).contains(first) {
        return None;
    }
    Some(match (*first, rest) {
        ("version", []) => Ok(format!("{}\n", version::own())),
        ("help", _) => Ok(help::long(program)),
        ("man", []) => Ok(man::page(program)),
        ("docs", ["flags"]) => Ok(docs::page()),
        ("docs", ["configuration"]) => Ok(config_docs::page()),
        ("docs", _) => Err("Error: docs wants one of: flags, configuration".to_owned()),
        ("completion", [shell]) => Shell::find(shell)
            .map(|shell| completion::script(shell, program, &asking_commands(program)))
            .ok_or_else(|| format!("Error: no completion for {shell:?}, only for bash, zsh and fish")),
        ("completion", _) => Err("Error: completion wants one of: bash, zsh, fish".to_owned()),
        (command, _) => Err(format!("Error: {command} takes no arguments")),
    })
}

/// A guess for a positional argument that is nearly a command.
pub fn hint(program: &str, positional: &[String]) -> String {
    positional
        .first()
        .and_then(|word| closest(word, known(program).iter().copied()))
        .map(|command| format!(", did you mean `{program} {command}`?"))
        .unwrap_or_default()
}

fn known(program: &str) -> &'static [&'static str] {
    if program == "kube-proxy" { &UNDER_THE_OTHER_NAME } else { &OWN }
}

/// The commands that ask, with their options, for completion.
fn asking_commands(program: &str) -> Vec<completion::Command> {
    let commands = COMMANDS.into_iter().filter(|command| known(program).contains(&command.name()));
    commands.map(|command| completion::Command { name: command.name(), words: command.words() }).collect()
}
