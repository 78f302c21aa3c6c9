//! Runs `iptables-save` and `iptables-restore`, and finds out which of their two variants to use.

use std::time::Duration;

use super::error::End;
use super::{IptablesError, RestoreText, Saved, lock};
use crate::nft::Family;
use crate::subprocess::{self, Run};

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
    pub fn restore(&mut self, text: &RestoreText) -> Result<(), IptablesError> {
        let program = self.name("-restore");
        let patience = Duration::from_secs(LOCK_PATIENCE_SECONDS.into());
        self.waited = self.takes_lock.then(|| lock::wait(patience));
        let left = patience.saturating_sub(self.waited.unwrap_or_default());
        let seconds = left.as_secs().max(1).to_string();
        let arguments = ["-w", &seconds, "--noflush", "--counters"];
        run(&program, "writing iptables rules", (&arguments, text.as_str())).map(drop)
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
    let ended = subprocess::run(&Run { program, arguments, input, limit: LIMIT, cancel: None });
    let output = ended.map_err(|source| IptablesError::of_run(program, operation, source))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
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
