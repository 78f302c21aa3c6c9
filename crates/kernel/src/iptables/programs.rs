//! Runs `iptables-save` and `iptables-restore`, and finds out which of their two variants to use.

use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use super::error::End;
use super::{IptablesError, Saved, lock};
use crate::nft::Family;

/// How long a program waits for the lock that all users of iptables share.
pub const LOCK_PATIENCE_SECONDS: u8 = 5;

/// How long a program may take in all. Writing very many rules takes minutes, and whoever ends that early never gets them
/// written; but one that hangs must not keep everything else from happening for ever.
const LIMIT: Duration = Duration::from_hours(1);

/// Chains by which the kubelet tells which variant this node uses.
const HINTS: [&str; 2] = ["KUBE-IPTABLES-HINT", "KUBE-KUBELET-CANARY"];

/// Which iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// The one that `iptables` is.
    Default,
    /// The one that writes into nf_tables.
    Nft,
    /// The one that writes into x_tables.
    Legacy,
}

impl Variant {
    /// The two there are, whatever `iptables` is.
    pub const BOTH: [Self; 2] = [Self::Nft, Self::Legacy];

    fn infix(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::Nft => "-nft",
            Self::Legacy => "-legacy",
        }
    }
}

/// What speaks for a variant, the strongest first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    is_hinted: bool,
    serves: bool,
    rules: usize,
}

impl Claim {
    fn of(saved: &Saved) -> Self {
        let has = |table: &str, chain: &str| saved.table(table).is_some_and(|table| table.has_chain(chain));
        Self {
            is_hinted: HINTS.iter().any(|hint| has("mangle", hint)),
            serves: has("nat", "KUBE-SERVICES"),
            // What cannot be read is at least one rule.
            rules: saved.rules() + saved.unreadable.len(),
        }
    }
}

/// The programs of one family and variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Programs {
    family: Family,
    variant: Variant,
    takes_lock: bool,
    /// How long the last change waited for the lock.
    waited: Option<Duration>,
}

impl Programs {
    /// Those of a variant; whether they are there shows when they are used.
    pub fn of(family: Family, variant: Variant) -> Self {
        Self { family, variant, takes_lock: variant == Variant::Legacy, waited: None }
    }

    /// The variant this node uses: the one with a hint of the kubelet's, or else with rules of a service proxy, or else with
    /// more rules, or else what `iptables` is. A variant that is there but cannot be read makes the choice impossible.
    pub fn choose(family: Family) -> Result<Self, IptablesError> {
        let mut best = None;
        for variant in Variant::BOTH {
            let mut programs = Self::of(family, variant);
            let claim = programs.save_if_present()?.map_or_else(Claim::default, |saved| Claim::of(&saved));
            if claim > best.as_ref().map_or(Claim::default(), |(claim, _)| *claim) {
                best = Some((claim, programs));
            }
        }
        Ok(best.map_or_else(|| Self::of(family, Variant::Default).known(), |(_, programs)| programs))
    }

    /// Knows whether it takes the lock, also if the variant is whatever `iptables` is.
    fn known(self) -> Self {
        Self { takes_lock: self.kind() == Some(Variant::Legacy), ..self }
    }

    /// Which of the two variants these programs are, if they tell.
    pub fn kind(&self) -> Option<Variant> {
        match self.variant {
            Variant::Default => {
                let told = run(&self.name(""), "asking for the version", (&["-V"], "")).ok()?;
                Some(if told.contains("nf_tables") { Variant::Nft } else { Variant::Legacy })
            }
            variant => Some(variant),
        }
    }

    /// The family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The variant.
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// The name of one of the programs: `ip6tables-legacy-save`.
    pub fn name(&self, suffix: &str) -> String {
        let family = match self.family {
            Family::Ip => "iptables",
            Family::Ip6 => "ip6tables",
        };
        format!("{family}{}{suffix}", self.variant.infix())
    }

    /// All rules of all tables.
    pub fn save(&mut self) -> Result<Saved, IptablesError> {
        let program = self.name("-save");
        let output = run(&program, "reading iptables rules", (&[], ""))?;
        Ok(Saved::parse(&output))
    }

    /// All rules of all tables, or nothing where the program is missing or the kernel has no such tables.
    pub fn save_if_present(&mut self) -> Result<Option<Saved>, IptablesError> {
        match self.save() {
            Err(error) if error.is_missing() || error.has_no_tables() => Ok(None),
            saved => saved.map(Some),
        }
    }

    /// Whether rules can be read and changed in this family.
    pub fn probe(&mut self) -> Result<(), IptablesError> {
        self.check_version()?;
        let seconds = LOCK_PATIENCE_SECONDS.to_string();
        let arguments = ["-w", &seconds, "-S", "POSTROUTING", "-t", "nat"];
        run(&self.name(""), "trying out iptables", (&arguments, "")).map(drop)
    }

    /// Older ones know neither `--random-fully` nor how to wait for the lock while they restore.
    fn check_version(&self) -> Result<(), IptablesError> {
        const OLDEST: (u32, u32, u32) = (1, 6, 2);
        let (program, operation) = (self.name(""), "asking for the version");
        let told = run(&program, operation, (&["-V"], ""))?;
        match version(&told) {
            Some((version, found)) if found < OLDEST => {
                Err(IptablesError::TooOld { program, operation, version: version.to_owned(), oldest: OLDEST })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// How many rules a chain has, if it is there.
    pub fn rules_of(&mut self, table: &str, chain: &str) -> Result<Option<usize>, IptablesError> {
        // The last one is what 1.8.9 says of a chain that it does not find.
        const ABSENT: [&str; 4] = [
            "No chain/target/match by that name",
            "No such file or directory",
            "does not exist",
            "is incompatible, use 'nft' tool",
        ];
        let seconds = LOCK_PATIENCE_SECONDS.to_string();
        let arguments = ["-w", &seconds, "-t", table, "-S", chain];
        match run(&self.name(""), "looking at a chain", (&arguments, "")) {
            Ok(listed) => Ok(Some(listed.lines().filter(|line| line.starts_with("-A ")).count())),
            Err(IptablesError::Failed { message, .. })
                if ABSENT.iter().any(|text| message.contains(text)) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Makes the changes of a text happen, each table's or nothing; chains it does not name stay as they are.
    pub fn restore(&mut self, text: &str) -> Result<(), IptablesError> {
        let program = self.name("-restore");
        let patience = Duration::from_secs(LOCK_PATIENCE_SECONDS.into());
        self.waited = self.takes_lock.then(|| lock::wait(patience));
        let left = patience.saturating_sub(self.waited.unwrap_or_default());
        let seconds = left.as_secs().max(1).to_string();
        let arguments = ["-w", &seconds, "--noflush", "--counters"];
        run(&program, "writing iptables rules", (&arguments, text)).map(drop)
    }

    /// How long the last change waited for the lock, where there is one; said once for each.
    pub fn lock_wait(&mut self) -> Option<Duration> {
        self.waited.take()
    }
}

/// The version in `iptables v1.8.9 (nf_tables)`, as it stands and in numbers.
fn version(told: &str) -> Option<(&str, (u32, u32, u32))> {
    let text = told.split_whitespace().find_map(|word| word.strip_prefix('v'))?;
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    let mut next = || numbers.next().unwrap_or(Some(0));
    Some((text, (next()?, next()?, next()?)))
}

/// Runs a program to its end, with this input; what it printed.
fn run(
    program: &str,
    operation: &'static str,
    (arguments, input): (&[&str], &str),
) -> Result<String, IptablesError> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let ended = command.process_group(0).spawn().and_then(|child| feed(child, input, LIMIT));
    let output = ended.map_err(|source| {
        let program = program.to_owned();
        match source.kind() {
            io::ErrorKind::NotFound => IptablesError::Missing { program, operation },
            _ => IptablesError::Run { program, operation, source },
        }
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let end = End { status: output.status.to_string(), complaint: &complaint, input };
    Err(IptablesError::of_end(program, operation, &end))
}

/// Hands a program its input while its output is read, so that neither waits for the other. It ends in time, or is ended.
fn feed(mut child: Child, input: &str, limit: Duration) -> io::Result<Output> {
    let stdin = child.stdin.take();
    let group = Pid::from_child(&child);
    let (ended, has_ended) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program that ends before it has read everything says why in its own words.
            let _ = stdin.map(|mut stdin| stdin.write_all(input.as_bytes()));
        });
        let watching = scope.spawn(move || {
            let is_late = has_ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout);
            if is_late {
                // With what it started, which would hold its output open. If it ended this very moment, there is none.
                let _ = kill_process_group(group, Signal::KILL);
            }
            is_late
        });
        let output = child.wait_with_output();
        drop(ended);
        if watching.join().unwrap_or_default() {
            let problem = format!("it did not end within {} seconds", limit.as_secs_f32());
            return Err(io::Error::new(io::ErrorKind::TimedOut, problem));
        }
        output
    })
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    fn fed(script: &str, limit: Duration) -> io::Result<Output> {
        let mut command = Command::new("sh");
        command.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        feed(command.process_group(0).spawn().expect("a shell"), "input\n", limit)
    }

    #[test]
    fn a_program_that_does_not_end_is_ended_with_what_it_started() {
        let began = Instant::now();
        let error = fed("sleep 600 & sleep 600", Duration::from_millis(200)).expect_err("it is late");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        assert!(began.elapsed() < Duration::from_mins(1));
    }

    #[test]
    fn a_program_that_ends_in_time_is_heard_out() {
        let output = fed("cat", Duration::from_mins(1)).expect("it ends");
        assert_eq!((output.status.success(), &output.stdout[..]), (true, &b"input\n"[..]));
    }

    #[test]
    fn versions_are_read_and_compared_by_number() {
        let of = |told| version(told).map(|(_, numbers)| numbers);
        assert_eq!(of("iptables v1.8.9 (nf_tables)"), Some((1, 8, 9)));
        assert_eq!(of("ip6tables v1.4.21\n"), Some((1, 4, 21)));
        assert_eq!((of("iptables v1.8"), of("iptables"), of("")), (Some((1, 8, 0)), None, None));
        assert!(of("iptables v1.8.10 (legacy)") > of("iptables v1.8.9 (legacy)"));
    }
}
