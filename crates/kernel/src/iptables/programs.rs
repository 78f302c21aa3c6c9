//! Runs `iptables-save` and `iptables-restore`, and finds out which of their two variants to use.

use std::cmp::Ordering;
use std::time::Duration;

use super::error::End;
use super::lock::LockWait;
use super::{IptablesError, RestoreText, RuleText, Saved};
use crate::nft::Family;
use crate::subprocess::{self, Cancel, Run};

/// How long a program waits for the lock that all users of iptables share.
pub const LOCK_PATIENCE_SECONDS: u8 = 5;

/// How long a program may take in all. Writing very many rules takes minutes, and whoever ends that early never gets them
/// written; but one that hangs must not keep everything else from happening for ever.
const LIMIT: Duration = Duration::from_hours(1);

const WRITING: &str = "writing iptables rules";

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
struct Signs {
    is_hinted: bool,
    serves: bool,
}

impl Signs {
    fn of(saved: &Saved) -> Self {
        let has = |table: &str, chain: &str| saved.table(table).is_some_and(|table| table.has_chain(chain));
        Self { is_hinted: HINTS.iter().any(|hint| has("mangle", hint)), serves: has("nat", "KUBE-SERVICES") }
    }
}

/// The programs of one family and variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Programs {
    family: Family,
    variant: Variant,
    takes_lock: bool,
    lock: LockWait,
    /// How long the last change waited for the lock.
    waited: Option<Duration>,
}

impl Programs {
    /// Those of a variant; whether they are there shows when they are used.
    pub fn of(family: Family, variant: Variant) -> Self {
        let takes_lock = variant == Variant::Legacy;
        Self { family, variant, takes_lock, lock: LockWait::default(), waited: None }
    }

    /// The variant this node uses: the one with a hint of the kubelet's, or else with rules of a service proxy, or else with
    /// more rules, or else what `iptables` is. A variant that is there but cannot be read makes the choice impossible.
    pub fn choose(family: Family) -> Result<Self, IptablesError> {
        // All rules of a large cluster take the `nft` variant a minute to show, and mostly nobody needs to see them.
        let (mut nft, mut legacy) = (Self::of(family, Variant::Nft), Self::of(family, Variant::Legacy));
        let saved = legacy.save_if_present()?;
        let (ours, theirs) = (nft.signs()?, saved.as_ref().map_or_else(Signs::default, Signs::of));
        if ours != theirs {
            return Ok(if ours > theirs { nft } else { legacy });
        }
        let has_signs = ours != Signs::default();
        let rules = |saved: Option<Saved>| saved.map_or(0, |saved| saved.rules() + saved.unreadable.len());
        let (ours, theirs) = (rules(nft.save_if_present()?), rules(saved));
        Ok(match ours.cmp(&theirs) {
            Ordering::Less => legacy,
            Ordering::Equal if ours == 0 && !has_signs => Self::of(family, Variant::Default).known(),
            Ordering::Equal | Ordering::Greater => nft,
        })
    }

    /// What speaks for this variant, without reading all rules. Asking does not make the `nft` variant create tables.
    fn signs(&mut self) -> Result<Signs, IptablesError> {
        let mut has = |table, chain| match self.rules_of(table, chain) {
            Err(error) if error.is_missing() || error.has_no_tables() => Ok(false),
            found => found.map(|rules| rules.is_some()),
        };
        let mut is_hinted = false;
        for hint in HINTS {
            is_hinted |= has("mangle", hint)?;
        }
        Ok(Signs { is_hinted, serves: has("nat", "KUBE-SERVICES")? })
    }

    /// Knows whether it takes the lock, also if the variant is whatever `iptables` is.
    fn known(self) -> Self {
        Self { takes_lock: self.kind() == Some(Variant::Legacy), ..self }
    }

    /// Which of the two variants these programs are, if they tell.
    pub fn kind(&self) -> Option<Variant> {
        match self.variant {
            Variant::Default => {
                let told = run(&self.name(""), &Call::of("asking for the version", &["-V"])).ok()?;
                Some(if told.contains("nf_tables") { Variant::Nft } else { Variant::Legacy })
            }
            variant => Some(variant),
        }
    }

    /// Whether they are there.
    pub fn are_installed(&self) -> bool {
        subprocess::find(&self.name("-save")).is_some()
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
        self.save_tables(&[], None)
    }

    /// All rules of these tables, or of all if none is named, unless somebody ends it before.
    pub fn save_tables(
        &mut self,
        tables: &[&'static str],
        cancel: Option<&Cancel>,
    ) -> Result<Saved, IptablesError> {
        let program = self.name("-save");
        let asked: Vec<Vec<&str>> = match tables {
            [] => vec![Vec::new()],
            tables => tables.iter().map(|table| vec!["-t", *table]).collect(),
        };
        let mut saved = Saved::default();
        for arguments in &asked {
            let call = Call { operation: "reading iptables rules", arguments, input: "", cancel };
            saved.extend(Saved::parse(&run(&program, &call)?));
        }
        Ok(saved)
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
        run(&self.name(""), &Call::of("trying out iptables", &arguments)).map(drop)
    }

    /// Older ones know neither `--random-fully` nor how to wait for the lock while they restore.
    fn check_version(&self) -> Result<(), IptablesError> {
        const OLDEST: (u32, u32, u32) = (1, 6, 2);
        let (program, operation) = (self.name(""), "asking for the version");
        let told = run(&program, &Call::of(operation, &["-V"]))?;
        match version(&told) {
            Some((version, found)) if found < OLDEST => {
                Err(IptablesError::TooOld { program, operation, version: version.to_owned(), oldest: OLDEST })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// How many rules a chain has, if it is there.
    pub fn rules_of(&mut self, table: &str, chain: &str) -> Result<Option<usize>, IptablesError> {
        Ok(self.list_chain(table, chain)?.map(|rules| rules.len()))
    }

    /// The rules of a chain, if it is there.
    pub fn list_chain(&mut self, table: &str, chain: &str) -> Result<Option<Vec<RuleText>>, IptablesError> {
        // The last one is what 1.8.9 says of a chain that it does not find.
        const ABSENT: [&str; 4] = [
            "No chain/target/match by that name",
            "No such file or directory",
            "does not exist",
            "is incompatible, use 'nft' tool",
        ];
        let seconds = LOCK_PATIENCE_SECONDS.to_string();
        let arguments = ["-w", &seconds, "-t", table, "-S", chain];
        match run(&self.name(""), &Call::of("looking at a chain", &arguments)) {
            Ok(listed) => {
                let rules = listed.lines().filter_map(|line| line.strip_prefix("-A ")?.strip_prefix(chain));
                Ok(Some(rules.map(|rule| RuleText::shown(rule.trim())).collect()))
            }
            Err(IptablesError::Failed { message, .. })
                if ABSENT.iter().any(|text| message.contains(text)) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether nothing of others is in the way of a change. Not for long: others may be faster.
    pub fn check_lock(&mut self) -> Result<(), IptablesError> {
        if self.takes_lock {
            let waited = self.lock.look();
            let waited = waited.map_err(|lock| IptablesError::Locked { lock, operation: WRITING })?;
            self.waited = Some(self.waited.unwrap_or_default() + waited);
        }
        Ok(())
    }

    /// Makes the changes of a text happen, each table's or nothing; chains it does not name stay as they are.
    pub fn restore(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        self.check_lock()?;
        self.run_restore(text, &[])
    }

    /// Whether the program understands a text. Nothing is changed.
    pub fn test(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        self.run_restore(text, &["--test"])
    }

    fn run_restore(&self, text: &RestoreText, more: &[&str]) -> Result<(), IptablesError> {
        let seconds = LOCK_PATIENCE_SECONDS.to_string();
        let arguments = [&["-w", &seconds, "--noflush", "--counters"], more].concat();
        let call = Call { operation: WRITING, arguments: &arguments, input: text.as_str(), cancel: None };
        run(&self.name("-restore"), &call).map(drop)
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

/// What a program is run for, and with what.
struct Call<'a> {
    operation: &'static str,
    arguments: &'a [&'a str],
    input: &'a str,
    cancel: Option<&'a Cancel>,
}

impl<'a> Call<'a> {
    fn of(operation: &'static str, arguments: &'a [&'a str]) -> Self {
        Self { operation, arguments, input: "", cancel: None }
    }
}

/// Runs a program to its end; what it printed.
fn run(program: &str, call: &Call<'_>) -> Result<String, IptablesError> {
    let Call { operation, arguments, input, cancel } = *call;
    let ended = subprocess::run(&Run { program, arguments, input, limit: LIMIT, cancel });
    let output = ended.map_err(|source| IptablesError::of_run(program, operation, source))?;
    if output.status.success() {
        // Mostly it is valid, and then it is not copied: there may be tens of megabytes of it.
        let text = String::from_utf8(output.stdout);
        return Ok(text.unwrap_or_else(|invalid| String::from_utf8_lossy(invalid.as_bytes()).into_owned()));
    }
    let complaint = String::from_utf8_lossy(&output.stderr);
    let end = End { status: output.status.to_string(), complaint: &complaint, input };
    Err(IptablesError::of_end(program, operation, &end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared_by_number() {
        let of = |told| version(told).map(|(_, numbers)| numbers);
        assert_eq!(of("iptables v1.8.9 (nf_tables)"), Some((1, 8, 9)));
        assert_eq!(of("ip6tables v1.4.21\n"), Some((1, 4, 21)));
        assert_eq!((of("iptables v1.8"), of("iptables"), of("")), (Some((1, 8, 0)), None, None));
        assert!(of("iptables v1.8.10 (legacy)") > of("iptables v1.8.9 (legacy)"));
    }
}
