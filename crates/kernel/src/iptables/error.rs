//! What can go wrong with the iptables programs.

use std::path::PathBuf;

use super::LOCK_PATIENCE_SECONDS;
use crate::nft::Family;
use crate::subprocess::RunError;

/// A program that did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum IptablesError {
    /// There is no such program.
    #[error(
        "{operation}: the program {program} is missing; install the package iptables, version 1.8 or newer"
    )]
    Missing {
        /// The program.
        program: String,
        /// What we were doing.
        operation: &'static str,
    },
    /// It could not be run.
    #[error("{operation}: running {program}")]
    Run {
        /// The program.
        program: String,
        /// What we were doing.
        operation: &'static str,
        /// Why.
        #[source]
        source: RunError,
    },
    /// Somebody else was at it all the time. Nothing was read or written.
    #[error("{operation}: another program holds the xtables lock ({}); is another iptables stuck?", lock.display())]
    Locked {
        /// The lock.
        lock: PathBuf,
        /// What we were doing.
        operation: &'static str,
    },
    /// The same, found out by a program that may have changed a table before.
    #[error(
        "{operation}: another program held the xtables lock for more than {LOCK_PATIENCE_SECONDS} seconds ({program}); \
         is another iptables stuck?"
    )]
    LockedHalfWay {
        /// The program.
        program: String,
        /// What we were doing.
        operation: &'static str,
    },
    /// The lock's file is not there and cannot be made.
    #[error(
        "{operation}: {program} cannot open the lock that all users of iptables share; /run must be writable, or \
         /run/xtables.lock be there (mount it from the host), or XTABLES_LOCKFILE name another place: {message}"
    )]
    NoLock {
        /// The program.
        program: String,
        /// What we were doing.
        operation: &'static str,
        /// What it said.
        message: String,
    },
    /// We may not.
    #[error(
        "{operation}: {program} is not permitted; run as root or with the capability CAP_NET_ADMIN: {message}"
    )]
    NotPermitted {
        /// The program.
        program: String,
        /// What we were doing.
        operation: &'static str,
        /// What it said.
        message: String,
    },
    /// A table holds rules that iptables cannot show, so what else is in it is not known.
    #[error(
        "reading iptables rules: table {family} {table} holds rules that another program wrote with nft, so iptables does not \
         show it; find them with \"nft list table {family} {table}\" and move them to a table of their own"
    )]
    Unreadable {
        /// The family.
        family: Family,
        /// The table.
        table: String,
    },
    /// It is too old.
    #[error("{operation}: {program} is version {version}; install the package iptables, version {}.{}.{} or newer", oldest.0, oldest.1, oldest.2)]
    TooOld {
        /// The program.
        program: String,
        /// What we were doing.
        operation: &'static str,
        /// Its version.
        version: String,
        /// The version that will do.
        oldest: (u32, u32, u32),
    },
    /// The program failed.
    #[error("{operation}: {program} failed ({status}): {message}{}", at.as_ref().map(|at| format!("; at {at:?}")).unwrap_or_default())]
    Failed {
        /// The program.
        program: String,
        /// What we were doing.
        operation: &'static str,
        /// How it ended.
        status: String,
        /// What it said.
        message: String,
        /// The line of the input it stumbled over, if it named one.
        at: Option<String>,
    },
    /// A failure on purpose, in a test.
    #[error("a failure on purpose")]
    OnPurpose,
}

impl IptablesError {
    /// Whether there is no such program on this machine.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }

    /// Whether this kernel has no such tables at all, so that nothing can be in them.
    pub fn has_no_tables(&self) -> bool {
        const ABSENT: [&str; 4] = [
            "Table does not exist",
            "Protocol not supported",
            "Operation not supported",
            "Address family not supported",
        ];
        matches!(self, Self::Failed { message, .. } if ABSENT.iter().any(|text| message.contains(text)))
    }

    /// Whether the tables are surely as they were: nothing ran that could have changed them.
    pub fn changed_nothing(&self) -> bool {
        match self {
            Self::Missing { .. } | Self::Locked { .. } => true,
            Self::Run { source, .. } => source.never_ran(),
            _ => false,
        }
    }

    /// Whether another program's lock is in the way, which goes away by itself.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::LockedHalfWay { .. })
    }

    /// Whether somebody ended the program.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Run { source: RunError::Cancelled, .. })
    }

    /// The line of the input that was refused, if one was named.
    pub fn refused_line(&self) -> Option<&str> {
        match self {
            Self::Failed { at, .. } => at.as_deref(),
            _ => None,
        }
    }

    /// Why a program did not come to an end of its own.
    pub(super) fn of_run(program: &str, operation: &'static str, source: RunError) -> Self {
        let program = program.to_owned();
        match source {
            RunError::NotFound => Self::Missing { program, operation },
            source => Self::Run { program, operation, source },
        }
    }

    /// What a program's end means.
    pub(super) fn of_end(program: &str, operation: &'static str, end: &End<'_>) -> Self {
        let (program, message) = (program.to_owned(), in_one_line(end.complaint));
        if message.contains("xtables lock") {
            return Self::LockedHalfWay { program, operation };
        }
        if message.contains("lock file") {
            return Self::NoLock { program, operation, message };
        }
        if message.contains("Permission denied") || message.contains("Operation not permitted") {
            return Self::NotPermitted { program, operation, message };
        }
        let at = failed_line(&message).and_then(|number| end.input.lines().nth(number.checked_sub(1)?));
        Self::Failed { program, operation, status: end.status.clone(), at: at.map(str::to_owned), message }
    }
}

/// How a program ended.
pub(super) struct End<'a> {
    pub status: String,
    pub complaint: &'a str,
    pub input: &'a str,
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The number in `line 20 failed`, `line 19: RULE_INSERT failed` or `Error occurred at line: 3`.
fn failed_line(message: &str) -> Option<usize> {
    message.split("line").skip(1).find_map(|rest| {
        let rest = rest.strip_prefix(": ").or_else(|| rest.strip_prefix(' '))?;
        let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
        digits.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(complaint: &str) -> IptablesError {
        let end = End { status: "exit status: 1".to_owned(), complaint, input: "*nat\n-A x\nCOMMIT\n" };
        IptablesError::of_end("iptables-restore", "writing", &end)
    }

    #[test]
    fn a_failure_names_the_line_it_is_about() {
        let text = of("iptables-nft-restore v1.8.9 (nf_tables): \nline 2: RULE_APPEND failed").to_string();
        assert!(text.ends_with("line 2: RULE_APPEND failed; at \"-A x\""), "{text}");
        assert!(of("iptables-restore: line 2 failed").to_string().ends_with("; at \"-A x\""));
        assert!(of("unknown option \"-x\" Error occurred at line: 2").to_string().ends_with("; at \"-A x\""));
        assert!(of("iptables-restore: line 99 failed").to_string().ends_with("line 99 failed"));
    }

    #[test]
    fn a_kernel_without_such_tables_has_nothing_in_them() {
        assert!(
            of("can't initialize ip6tables table `nat': Table does not exist (do you need to insmod?)")
                .has_no_tables()
        );
        assert!(of("iptables-nft-save: Failed to initialize nft: Protocol not supported").has_no_tables());
        assert!(!of("Resource temporarily unavailable").has_no_tables());
        assert!(!of("Permission denied (you must be root)").has_no_tables());
    }

    #[test]
    fn a_held_lock_and_a_lack_of_rights_are_told_apart() {
        let held = of("Another app is currently holding the xtables lock; still 3s 0us time ahead");
        assert!(held.is_locked() && !held.changed_nothing());
        let unwritable = of("Fatal: can't open lock file /run/xtables.lock: Read-only file system");
        assert!(unwritable.to_string().contains("/run must be writable"), "{unwritable}");
        assert!(matches!(
            of("Fatal: Permission denied (you must be root)"),
            IptablesError::NotPermitted { .. }
        ));
    }
}
