//! The commands that ask, their options, and their help. One table for parsing, `--help` and completion.

use std::fmt::Write as _;

use ferrule_config::cli::flags;
use ferrule_config::closest;

use super::ToolError;
use crate::questions::query::Parameters;

/// The commands that ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// One screen about the running proxy.
    Status,
    /// The table of what is served.
    Plan,
    /// What becomes of one packet, and why.
    Explain,
    /// What a sync would write.
    Diff,
    /// Services by connections a second.
    Top,
}

/// All of them.
pub const COMMANDS: [Command; 5] =
    [Command::Status, Command::Plan, Command::Explain, Command::Diff, Command::Top];

/// How an answer is printed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Format {
    #[default]
    Text,
    Wide,
    Json,
    Yaml,
}

/// An option of these commands.
struct Opt {
    name: &'static str,
    /// What its value is called; empty for a switch.
    value: &'static str,
    commands: &'static [Command],
    doc: &'static str,
}

const fn opt(
    name: &'static str,
    value: &'static str,
    commands: &'static [Command],
    doc: &'static str,
) -> Opt {
    Opt { name, value, commands, doc }
}

const EXPLAIN: &[Command] = &[Command::Explain];
const PLAN: &[Command] = &[Command::Plan];
const WITH_FOLDER: &[Command] = &[Command::Plan, Command::Explain, Command::Diff];

const STATUS: &[Command] = &[Command::Status];
const REPEATED: &[Command] = &[Command::Status, Command::Top];
const TOP: &[Command] = &[Command::Top];
const OF_SERVICES: &[Command] = &[Command::Plan, Command::Top];

const OPTIONS: [Opt; 21] = [
    opt("from-pod", "ADDRESS", EXPLAIN, "The packet comes from a pod of this node, behind its interface."),
    opt("from-node", "", EXPLAIN, "The node itself sends the packet."),
    opt(
        "from-outside",
        "",
        EXPLAIN,
        "The packet comes from outside of the cluster; an address may be given as FROM.",
    ),
    opt("interface", "NAME", EXPLAIN, "The interface that the packet comes in on."),
    opt("no-kernel", "", EXPLAIN, "Do not compare with the kernel, which reads its maps or rules."),
    opt(
        "kernel",
        "",
        EXPLAIN,
        "With --manifests or --kubeconfig: compare with the kernel of this host. Needs root.",
    ),
    opt("namespace", "NAME", OF_SERVICES, "Only Services of this namespace; -n for short."),
    opt("service", "NAMESPACE/NAME", OF_SERVICES, "Only this Service."),
    opt("address", "ADDRESS", PLAN, "Only frontends at this address."),
    opt("limit", "NUMBER", OF_SERVICES, "No more rows than this; of plan, no more frontends."),
    opt("endpoints", "", TOP, "Also a row for each endpoint."),
    opt("watch", "", STATUS, "Ask repeatedly, until interrupted; on a terminal the screen is renewed."),
    opt("interval", "SECONDS", REPEATED, "The time between two readings, 2 if not set, at least 1."),
    opt("count", "NUMBER", TOP, "End after so many tables."),
    opt("once", "", TOP, "End after one table, as where the output is no terminal."),
    opt(
        "manifests",
        "DIR",
        WITH_FOLDER,
        "Answer from this folder of manifests, or with the proxy's flags --kubeconfig FILE or --config FILE from \
         the API server, without a running proxy. Others, such as --proxy-mode or --hostname-override, may follow.",
    ),
    opt("inspect-socket", "PATH", &COMMANDS, "Where the running proxy answers, if not at its default."),
    opt("output", "FORMAT", &COMMANDS, "text, wide, json or yaml; -o for short."),
    opt("json", "", &COMMANDS, "The same as -o json."),
    opt("yaml", "", &COMMANDS, "The same as -o yaml."),
    opt("help", "", &COMMANDS, "Print this text; -h for short."),
];

/// What was said on the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Given {
    values: Vec<(&'static str, String)>,
    pub positional: Vec<String>,
    /// Flags of the proxy, for answers without a running one.
    pub proxy_flags: Vec<String>,
    pub format: Format,
    pub help: bool,
}

impl Command {
    /// The command of this name.
    pub fn find(name: &str) -> Option<Self> {
        COMMANDS.into_iter().find(|command| command.name() == name)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::Plan => "plan",
            Self::Explain => "explain",
            Self::Diff => "diff",
            Self::Top => "top",
        }
    }

    fn synopsis(self) -> &'static str {
        match self {
            Self::Status | Self::Plan | Self::Diff | Self::Top => "[options]",
            Self::Explain => "FROM TO[:PORT][/udp|/sctp] [options]",
        }
    }

    fn about(self) -> &'static str {
        match self {
            Self::Status => "How the proxy of this node is: syncs, failures, repairs, what it cannot use.",
            Self::Plan => "What this node does for each address and port of a Service.",
            Self::Explain => {
                "What becomes of a packet and why: the frontend, who has it, the rule, every endpoint, the kernel.\n\
                 FROM is an address. TO is an address, or a Service as NAMESPACE/NAME. Without a port the packet has none, as a ping."
            }
            Self::Diff => "What a sync would write now. Nothing is written.",
            Self::Top => {
                "Services by connections a second, on this node. On a terminal the table is renewed until it is interrupted.\n\
                 The proxy must count connections: --service-counters=all, or labelled."
            }
        }
    }

    fn exit_status(self) -> &'static str {
        match self {
            Self::Status => "0 in sync, 1 not in sync, 2 no answer",
            Self::Plan => "0 answered, 2 no answer",
            Self::Explain => "0 the packet reaches an endpoint, 1 it does not, 2 wrong usage or no answer",
            Self::Top => "0 answered, 2 wrong usage, no answer, or no counters",
            Self::Diff => "0 no difference, 1 differences, 2 wrong usage or no answer",
        }
    }

    fn examples(self) -> &'static [&'static str] {
        match self {
            Self::Status => &["status", "status --watch", "status -o json"],
            Self::Plan => {
                &["plan --namespace shop", "plan --address 10.96.0.10 -o wide", "plan --manifests ./cluster"]
            }
            Self::Explain => &[
                "explain 10.244.1.7 10.96.0.10:80",
                "explain --from-outside 192.0.2.10:30080",
                "explain --from-node kube-system/kube-dns:dns/udp",
                "explain 10.244.1.7 shop/web:http -o json",
            ],
            Self::Diff => &["diff", "diff --manifests ./changed"],
            Self::Top => &[
                "top",
                "top -n shop --endpoints",
                "top --interval 10 --count 6 -o wide",
                "top --once -o json",
            ],
        }
    }

    fn takes_manifests(self) -> bool {
        WITH_FOLDER.contains(&self)
    }

    /// The options that it takes, with dashes.
    pub fn words(self) -> Vec<String> {
        self.options()
            .map(|option| format!("--{}{}", option.name, if option.value.is_empty() { "" } else { "=" }))
            .collect()
    }

    fn options(self) -> impl Iterator<Item = &'static Opt> {
        OPTIONS.iter().filter(move |option| option.commands.contains(&self))
    }
}

impl Given {
    pub(super) fn parse(command: Command, arguments: &[String]) -> Result<Self, ToolError> {
        let mut given = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let long = match argument.as_str() {
                "-h" => "help".to_owned(),
                "-o" => "output".to_owned(),
                "-n" => "namespace".to_owned(),
                text => match (text.strip_prefix("--"), text.strip_prefix("-o")) {
                    (Some(long), _) => long.to_owned(),
                    (None, Some(format)) => format!("output={}", format.trim_start_matches('=')),
                    (None, None) if text.starts_with('-') => {
                        return Err(ToolError(format!("there is no option {text}")));
                    }
                    (None, None) => {
                        given.positional.push(text.to_owned());
                        continue;
                    }
                },
            };
            given.take(command, &long, &mut rest)?;
        }
        given.check(command)
    }

    fn take<'a>(
        &mut self,
        command: Command,
        long: &str,
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), ToolError> {
        let (name, joined) =
            long.split_once('=').map_or((long, None), |(name, value)| (name, Some(value.to_owned())));
        let missing = || ToolError(format!("--{name} needs a value"));
        let Some(option) = command.options().find(|option| option.name == name) else {
            return self.take_proxy_flag(command, (name, joined), rest);
        };
        let value = match (option.value.is_empty(), joined) {
            (true, None) => String::new(),
            (true, Some(_)) => return Err(ToolError(format!("--{name} takes no value"))),
            (false, Some(value)) => value,
            (false, None) => rest.next().cloned().ok_or_else(missing)?,
        };
        self.values.push((option.name, value));
        Ok(())
    }

    fn take_proxy_flag<'a>(
        &mut self,
        command: Command,
        (name, joined): (&str, Option<String>),
        rest: &mut impl Iterator<Item = &'a String>,
    ) -> Result<(), ToolError> {
        let Some(flag) = flags::find(name).filter(|_| command.takes_manifests()) else {
            let guess = closest(name, command.options().map(|option| option.name));
            let guess = guess.map(|guess| format!(", did you mean --{guess}?")).unwrap_or_default();
            return Err(ToolError(format!("there is no option --{name}{guess}")));
        };
        let value = joined.or_else(|| flag.bare_value().map(str::to_owned)).or_else(|| rest.next().cloned());
        let value = value.ok_or_else(|| ToolError(format!("--{name} needs a value")))?;
        self.proxy_flags.push(format!("--{name}={value}"));
        Ok(())
    }

    fn check(mut self, command: Command) -> Result<Self, ToolError> {
        self.help = self.has("help");
        if self.help {
            return Ok(self);
        }
        self.format = match (self.value("output"), self.has("json"), self.has("yaml")) {
            (None | Some("json"), true, false) | (Some("json"), false, false) => Format::Json,
            (None | Some("yaml"), false, true) | (Some("yaml"), false, false) => Format::Yaml,
            (None | Some("text"), false, false) => Format::Text,
            (Some("wide"), false, false) => Format::Wide,
            (Some(format), false, false) => {
                return Err(ToolError(format!(
                    "there is no output {format:?}, only text, wide, json and yaml"
                )));
            }
            (_, _, _) => return Err(ToolError("name one output format".to_owned())),
        };
        if command != Command::Explain && !self.positional.is_empty() {
            return Err(ToolError(format!(
                "{} takes no arguments, got {:?}",
                command.name(),
                self.positional
            )));
        }
        let asks_a_proxy = self.value("manifests").is_none() && !self.names_a_cluster();
        if !self.proxy_flags.is_empty() && asks_a_proxy {
            let flag = &self.proxy_flags[0];
            return Err(ToolError(format!(
                "{flag} only counts with --manifests or --kubeconfig; the running proxy has its own flags"
            )));
        }
        if self.has("kernel") && (asks_a_proxy || self.has("no-kernel")) {
            return Err(ToolError(
                "--kernel is for --manifests or --kubeconfig, and not for --no-kernel".to_owned(),
            ));
        }
        Ok(self)
    }

    pub(super) fn value(&self, name: &str) -> Option<&str> {
        self.values.iter().rev().find(|(found, _)| *found == name).map(|(_, value)| value.as_str())
    }

    /// Whether a flag of the proxy says how the API server is reached.
    pub(super) fn names_a_cluster(&self) -> bool {
        let starts = ["--kubeconfig=", "--master=", "--config="];
        self.proxy_flags.iter().any(|flag| starts.iter().any(|start| flag.starts_with(start)))
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.value(name).is_some()
    }

    /// The packet that `explain` is about, as parameters of the question.
    pub(super) fn packet(&self) -> Result<Parameters, ToolError> {
        let pod = self.value("from-pod");
        let kinds =
            [("pod", pod.is_some()), ("node", self.has("from-node")), ("outside", self.has("from-outside"))];
        let kinds: Vec<&str> =
            kinds.into_iter().filter_map(|(kind, is_given)| is_given.then_some(kind)).collect();
        let (kind, from, to) = match (&kinds[..], &self.positional[..]) {
            ([], [from, to]) => ("address", Some(from.as_str()), to),
            (["pod"], [to]) => ("pod", pod, to),
            (["node"], [to]) => ("node", None, to),
            (["outside"], [to]) => ("outside", None, to),
            (["outside"], [from, to]) => ("outside", Some(from.as_str()), to),
            ([] | [_], _) => return Err(ToolError("name one source and one destination".to_owned())),
            (_, _) => {
                return Err(ToolError("name one of --from-pod, --from-node, --from-outside".to_owned()));
            }
        };
        if kind == "pod" && pod.is_some_and(|pod| pod.contains('/')) {
            return Err(ToolError(
                "the proxy does not watch pods; give the pod's address (kubectl get pod -o wide)".to_owned(),
            ));
        }
        let mut parameters = Parameters::default();
        parameters.set("origin", kind);
        parameters.set("to", to.as_str());
        if let Some(from) = from {
            parameters.set("from", from);
        }
        if let Some(interface) = self.value("interface") {
            parameters.set("interface", interface);
        }
        Ok(parameters)
    }
}

/// One line on how a command is used.
pub(super) fn usage(program: &str, command: Command) -> String {
    format!("Usage: {program} {} {}", command.name(), command.synopsis())
}

/// What `--help` prints.
pub(super) fn help(program: &str, command: Command) -> String {
    let mut text = format!("{}\n\n{}\n\nOptions:\n", command.about(), usage(program, command));
    let left = |option: &Opt| format!("--{} {}", option.name, option.value);
    let width = command.options().map(|option| left(option).trim_end().len()).max().unwrap_or(0);
    for option in command.options() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {:width$}   {}", left(option).trim_end(), option.doc);
    }
    text.push_str("\nExamples:\n");
    for example in command.examples() {
        let _ = writeln!(text, "  {program} {example}");
    }
    let _ = writeln!(text, "\nExit status: {}.", command.exit_status());
    text
}
