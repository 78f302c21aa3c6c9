//! Shell completion scripts, from the flag table.
//!
//! Plain word lists for bash, zsh and fish; no call back into the program while the user types.

use std::fmt::Write;

use ferrule_plan::ProxyMode;

use super::flags::{self, Flag, FlagKind};

/// The shells there is a script for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// bash
    Bash,
    /// zsh
    Zsh,
    /// fish
    Fish,
}

impl Shell {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bash, Self::Zsh, Self::Fish];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Zsh => "zsh",
            Self::Fish => "fish",
        }
    }

    /// The shell of this name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shell| shell.name() == name)
    }
}

/// A command of the program with options of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// Its options with dashes, and with an equals sign if they take a value.
    pub words: Vec<String>,
}

/// The script that makes a shell complete a program of this name.
pub fn script(shell: Shell, program: &str, commands: &[Command]) -> String {
    match shell {
        Shell::Bash => bash(program, commands),
        Shell::Zsh => zsh(program, commands),
        Shell::Fish => fish(program, commands),
    }
}

fn shown() -> impl Iterator<Item = &'static Flag> {
    flags::all().into_iter().filter(|flag| flag.is_shown())
}

/// The words a value is one of, where there is such a list.
fn choices(flag: &Flag) -> Vec<&'static str> {
    match flag.kind {
        FlagKind::ProxyMode => ProxyMode::ALL.map(ProxyMode::name).to_vec(),
        FlagKind::LocalMode => vec!["ClusterCIDR", "NodeCIDR", "BridgeInterface", "InterfaceNamePrefix"],
        _ if flag.name == "logging-format" => vec!["text", "json"],
        _ if flag.name == "service-counters" => vec!["off", "labelled", "all"],
        _ if flag.name == "nodeport-addresses" => vec!["primary", "localhost", "all"],
        _ => Vec::new(),
    }
}

fn takes_file(flag: &Flag) -> bool {
    matches!(flag.name, "config" | "write-config-to" | "kubeconfig" | "inspect-socket")
}

/// A name that may be part of a shell function's name.
fn function_name(program: &str) -> String {
    program.replace(|c: char| !c.is_ascii_alphanumeric(), "_")
}

fn bash(program: &str, commands: &[Command]) -> String {
    let function = function_name(program);
    let words: Vec<String> = shown()
        .map(|flag| format!("--{}{}", flag.name, if flag.bare_value().is_some() { "" } else { "=" }))
        .collect();
    let mut values = String::new();
    for flag in shown() {
        // Writing to a String cannot fail.
        if takes_file(flag) {
            let _ = writeln!(
                values,
                "        --{}) COMPREPLY=($(compgen -f -- \"$value\")); return ;;",
                flag.name
            );
        } else if !choices(flag).is_empty() {
            let list = choices(flag).join(" ");
            let _ = writeln!(
                values,
                "        --{}) COMPREPLY=($(compgen -W \"{list}\" -- \"$value\")); return ;;",
                flag.name
            );
        }
    }
    let mut own = String::new();
    for Command { name, words } in commands {
        let _ = writeln!(
            own,
            "        {name}) COMPREPLY=($(compgen -W \"{}\" -- \"$current\")); return ;;",
            words.join(" ")
        );
    }
    let names: Vec<&str> = commands.iter().map(|command| command.name).collect();
    let words: Vec<String> = words.into_iter().chain(names.iter().map(ToString::to_string)).collect();
    let own =
        if own.is_empty() { own } else { format!("    case \"${{COMP_WORDS[1]}}\" in\n{own}    esac\n") };
    format!(
        "# bash completion for {program}\n_{function}() {{\n    local current=\"${{COMP_WORDS[COMP_CWORD]}}\"\n    \
         local name=\"${{COMP_WORDS[COMP_CWORD-1]}}\" value=\"$current\"\n    \
         if [ \"$current\" = = ]; then value=\"\"; \
         elif [ \"$name\" = = ]; then name=\"${{COMP_WORDS[COMP_CWORD-2]}}\"; fi\n    \
         case \"$name\" in\n{values}    esac\n    \
         compopt -o nospace 2>/dev/null\n{own}    \
         COMPREPLY=($(compgen -W \"{}\" -- \"$current\"))\n}}\ncomplete -F _{function} {program}\n",
        words.join(" ")
    )
}

fn zsh(program: &str, commands: &[Command]) -> String {
    let mut text = format!("#compdef {program}\n");
    if !commands.is_empty() {
        text.push_str("case \"${words[2]}\" in\n");
        for Command { name, words } in commands {
            let _ = writeln!(text, "  {name}) compadd -S '' -- {}; return ;;", words.join(" "));
        }
        let names: Vec<&str> = commands.iter().map(|command| command.name).collect();
        let _ = writeln!(text, "esac\n(( CURRENT == 2 )) && compadd -- {}", names.join(" "));
    }
    text.push_str("_arguments \\\n");
    for flag in shown() {
        let doc = flag.doc.replace('\'', "").replace('[', "(").replace(']', ")").replace(':', "\\:");
        let action =
            if takes_file(flag) { "_files".to_owned() } else { format!("({})", choices(flag).join(" ")) };
        let line = if flag.bare_value().is_some() {
            format!("  '--{}[{doc}]' \\\n", flag.name)
        } else {
            format!("  '--{}=[{doc}]:{}:{action}' \\\n", flag.name, flag.value_word().replace(':', ""))
        };
        text.push_str(&line);
    }
    text.push_str("  '*::'\n");
    text
}

fn fish(program: &str, commands: &[Command]) -> String {
    let mut text = format!("# fish completion for {program}\ncomplete -c {program} -f\n");
    for Command { name, words } in commands {
        let _ = writeln!(text, "complete -c {program} -n __fish_use_subcommand -a {name}");
        for word in words {
            let (long, value) = word.strip_suffix('=').map_or((word.as_str(), ""), |long| (long, " -r"));
            let long = long.trim_start_matches('-');
            let _ = writeln!(
                text,
                "complete -c {program} -n '__fish_seen_subcommand_from {name}' -l {long}{value}"
            );
        }
    }
    for flag in shown() {
        let doc = flag.doc.replace('\\', "\\\\").replace('\'', "\\'");
        let value = match (flag.bare_value(), choices(flag).as_slice()) {
            (Some(_), _) => String::new(),
            (None, _) if takes_file(flag) => " -r -F".to_owned(),
            (None, []) => " -x".to_owned(),
            (None, list) => format!(" -x -a '{}'", list.join(" ")),
        };
        let _ = writeln!(text, "complete -c {program} -l {}{value} -d '{doc}'", flag.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shell_offers_every_shown_flag() {
        for shell in Shell::ALL {
            let text = script(shell, "kube-proxy", &[]);
            for flag in shown() {
                assert!(text.contains(flag.name), "{} in {}", flag.name, shell.name());
            }
            assert!(!text.contains("boot-id-file"));
        }
    }

    #[test]
    fn bash_takes_the_script_and_completes_with_it() {
        let script = script(Shell::Bash, "kube-proxy", &[]);
        let ask = "\nCOMP_WORDS=(kube-proxy --proxy-mode = nf); COMP_CWORD=3; _kube_proxy; echo \"${COMPREPLY[@]}\"\n\
                   COMP_WORDS=(kube-proxy --cluster); COMP_CWORD=1; _kube_proxy; echo \"${COMPREPLY[@]}\"\n";
        let output = std::process::Command::new("bash")
            .args(["-c", &format!("{script}{ask}")])
            .output()
            .expect("bash is needed to test its completion");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "nftables\n--cluster-cidr=\n");
    }
}
