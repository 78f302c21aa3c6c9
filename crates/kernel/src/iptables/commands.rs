//! Runs `iptables-save` and `iptables-restore`, of either variant.

use std::time::Duration;

use super::error::FailedExit;
use super::lock::LockWait;
use super::{IptablesError, RestoreText, RuleText, Saved, if_present};
use crate::nft::Family;
use crate::port::XTables;
use crate::subprocess::{self, Cancel, Run};

/// How long a command waits for the xtables lock.
pub const LOCK_TIMEOUT_SECONDS: u8 = 5;

/// How long a command may run. Restoring very many rules takes minutes, and killing it early would mean that they are never
/// written; but a command that hangs must not block everything else for ever.
const COMMAND_TIMEOUT: Duration = Duration::from_hours(1);

const WRITING: &str = "writing iptables rules";

/// A variant of iptables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Variant {
    /// Whichever `iptables` is on this machine.
    Default,
    /// Writes into nf_tables.
    Nft,
    /// Writes into x_tables.
    Legacy,
}

impl Variant {
    /// Both variants by name.
    pub const BOTH: [Self; 2] = [Self::Nft, Self::Legacy];

    fn infix(self) -> &'static str {
        match self {
            Self::Default => "",
            Self::Nft => "-nft",
            Self::Legacy => "-legacy",
        }
    }
}

/// The commands of one family and variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IptablesCommands {
    family: Family,
    variant: Variant,
    takes_lock: bool,
    lock: LockWait,
    /// How long the last change waited for the lock.
    waited: Option<Duration>,
}

impl IptablesCommands {
    /// The commands of a variant; whether they are installed is not checked.
    pub fn new(family: Family, variant: Variant) -> Self {
        let takes_lock = variant == Variant::Legacy;
        Self { family, variant, takes_lock, lock: LockWait::default(), waited: None }
    }

    /// Finds out whether [`Variant::Default`] takes the lock.
    pub(super) fn with_lock_resolved(self) -> Self {
        Self { takes_lock: self.resolved_variant() == Some(Variant::Legacy), ..self }
    }

    /// The variant by name, also of [`Variant::Default`]; `None` if the command does not tell.
    pub fn resolved_variant(&self) -> Option<Variant> {
        match self.variant {
            Variant::Default => {
                let version = run(&self.name(""), &Call::new("asking for the version", &["-V"])).ok()?;
                Some(if version.contains("nf_tables") { Variant::Nft } else { Variant::Legacy })
            }
            variant => Some(variant),
        }
    }

    /// Whether the commands are installed.
    pub fn are_installed(&self) -> bool {
        subprocess::find(&self.name("-save")).is_some()
    }

    /// The variant as chosen, possibly [`Variant::Default`].
    pub fn variant(&self) -> Variant {
        self.variant
    }

    /// The name of a command, for example `ip6tables-legacy-save`.
    pub fn name(&self, suffix: &str) -> String {
        let family = match self.family {
            Family::Ip => "iptables",
            Family::Ip6 => "ip6tables",
        };
        format!("{family}{}{suffix}", self.variant.infix())
    }

    /// All rules of all tables; `None` if the command is not installed or the kernel has no such tables.
    pub fn save_if_present(&mut self) -> Result<Option<Saved>, IptablesError> {
        if_present(self.save())
    }

    /// Checks that rules can be read in this family and that the version is new enough.
    pub fn probe(&mut self) -> Result<(), IptablesError> {
        self.check_version()?;
        let seconds = LOCK_TIMEOUT_SECONDS.to_string();
        let arguments = ["-w", &seconds, "-S", "POSTROUTING", "-t", "nat"];
        run(&self.name(""), &Call::new("trying out iptables", &arguments)).map(drop)
    }

    /// Older versions know neither `--random-fully` nor how to wait for the lock during a restore.
    fn check_version(&self) -> Result<(), IptablesError> {
        const OLDEST: (u32, u32, u32) = (1, 6, 2);
        let (program, operation) = (self.name(""), "asking for the version");
        let output = run(&program, &Call::new(operation, &["-V"]))?;
        match version(&output) {
            Some((version, found)) if found < OLDEST => {
                Err(IptablesError::TooOld { program, operation, version: version.to_owned(), oldest: OLDEST })
            }
            Some(_) | None => Ok(()),
        }
    }

    fn read_tables(&self, tables: &[&'static str], cancel: Option<&Cancel>) -> Result<Saved, IptablesError> {
        let program = self.name("-save");
        let runs: Vec<Vec<&str>> = match tables {
            [] => vec![Vec::new()],
            tables => tables.iter().map(|table| vec!["-t", *table]).collect(),
        };
        let mut saved = Saved::default();
        for arguments in &runs {
            let call = Call { operation: "reading iptables rules", arguments, input: "", cancel };
            saved.extend(Saved::parse(&run(&program, &call)?));
        }
        Ok(saved)
    }

    fn run_restore(&self, text: &RestoreText, more: &[&str]) -> Result<(), IptablesError> {
        let seconds = LOCK_TIMEOUT_SECONDS.to_string();
        let arguments = [&["-w", &seconds, "--noflush", "--counters"], more].concat();
        let call = Call { operation: WRITING, arguments: &arguments, input: text.as_str(), cancel: None };
        run(&self.name("-restore"), &call).map(drop)
    }
}

impl XTables for IptablesCommands {
    fn family(&self) -> Family {
        self.family
    }

    fn save(&mut self) -> Result<Saved, IptablesError> {
        self.read_tables(&[], None)
    }

    fn save_tables(&mut self, tables: &[&'static str], cancel: &Cancel) -> Result<Saved, IptablesError> {
        self.read_tables(tables, Some(cancel))
    }

    fn chain_rules(&mut self, table: &str, chain: &str) -> Result<Option<Vec<RuleText>>, IptablesError> {
        // The last one is what 1.8.9 prints for a missing chain.
        const ABSENT: [&str; 4] = [
            "No chain/target/match by that name",
            "No such file or directory",
            "does not exist",
            "is incompatible, use 'nft' tool",
        ];
        let seconds = LOCK_TIMEOUT_SECONDS.to_string();
        let arguments = ["-w", &seconds, "-t", table, "-S", chain];
        match run(&self.name(""), &Call::new("listing a chain", &arguments)) {
            Ok(listed) => {
                let rules = listed.lines().filter_map(|line| line.strip_prefix("-A ")?.strip_prefix(chain));
                Ok(Some(rules.map(|rule| RuleText::from_saved(rule.trim())).collect()))
            }
            Err(IptablesError::Failed { message, .. })
                if ABSENT.iter().any(|text| message.contains(text)) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn check_lock(&mut self) -> Result<(), IptablesError> {
        if self.takes_lock {
            let waited = self.lock.probe();
            let waited = waited.map_err(|lock| IptablesError::Locked { lock, operation: WRITING })?;
            self.waited = Some(self.waited.unwrap_or_default() + waited);
        }
        Ok(())
    }

    fn restore(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        self.check_lock()?;
        self.run_restore(text, &[])
    }

    fn test(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        self.run_restore(text, &["--test"])
    }

    fn lock_wait(&mut self) -> Option<Duration> {
        self.waited.take()
    }
}

/// The version in `iptables v1.8.9 (nf_tables)`, as text and as numbers.
fn version(output: &str) -> Option<(&str, (u32, u32, u32))> {
    let text = output.split_whitespace().find_map(|word| word.strip_prefix('v'))?;
    let mut numbers = text.split('.').map(|number| number.parse().ok());
    let mut next = || numbers.next().unwrap_or(Some(0));
    Some((text, (next()?, next()?, next()?)))
}

/// One run of a command.
struct Call<'a> {
    operation: &'static str,
    arguments: &'a [&'a str],
    input: &'a str,
    cancel: Option<&'a Cancel>,
}

impl<'a> Call<'a> {
    fn new(operation: &'static str, arguments: &'a [&'a str]) -> Self {
        Self { operation, arguments, input: "", cancel: None }
    }
}

/// Runs a command to its end and returns its output.
fn run(program: &str, call: &Call<'_>) -> Result<String, IptablesError> {
    let Call { operation, arguments, input, cancel } = *call;
    let result = subprocess::run(&Run { program, arguments, input, timeout: COMMAND_TIMEOUT, cancel });
    let output = result.map_err(|source| IptablesError::from_run(program, operation, source))?;
    if output.status.success() {
        // Valid UTF-8 is not copied: there may be tens of megabytes of it.
        let text = String::from_utf8(output.stdout);
        return Ok(text.unwrap_or_else(|invalid| String::from_utf8_lossy(invalid.as_bytes()).into_owned()));
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let exit = FailedExit { status: output.status.to_string(), stderr: &stderr, input };
    Err(IptablesError::from_exit(program, operation, &exit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_by_number() {
        let numbers = |output| version(output).map(|(_, numbers)| numbers);
        assert_eq!(numbers("iptables v1.8.9 (nf_tables)"), Some((1, 8, 9)));
        assert_eq!(numbers("ip6tables v1.4.21\n"), Some((1, 4, 21)));
        assert_eq!(
            (numbers("iptables v1.8"), numbers("iptables"), numbers("")),
            (Some((1, 8, 0)), None, None)
        );
        assert!(numbers("iptables v1.8.10 (legacy)") > numbers("iptables v1.8.9 (legacy)"));
    }
}
