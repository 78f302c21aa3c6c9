//! Errors of reading and writing iptables' rules.

use std::path::PathBuf;

use super::LOCK_TIMEOUT_SECONDS;
use super::direct::RuleError;
use crate::netlink::{NetlinkError, Rejection};
use crate::nft::Family;
use crate::subprocess::RunError;

/// A command that failed or could not be run.
#[derive(Debug, thiserror::Error)]
pub enum IptablesError {
    /// The command is not installed.
    #[error(
        "{operation}: the program {program} is missing; install the package iptables, version 1.8 or newer"
    )]
    Missing {
        /// The program.
        program: String,
        /// What we were doing.
        operation: &'static str,
    },
    /// The command could not be run to its end.
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
    /// Another program held the xtables lock all the time. Nothing was read or written.
    #[error("{operation}: another program holds the xtables lock ({}); is another iptables stuck?", lock.display())]
    Locked {
        /// The lock file.
        lock: PathBuf,
        /// What we were doing.
        operation: &'static str,
    },
    /// The command itself ran into the lock, possibly after it had changed a table.
    #[error(
        "{operation}: another program held the xtables lock for more than {LOCK_TIMEOUT_SECONDS} seconds ({program}); \
         is another iptables stuck?"
    )]
    LockedMidway {
        /// The program.
        program: String,
        /// What we were doing.
        operation: &'static str,
    },
    /// The lock file does not exist and cannot be created.
    #[error(
        "{operation}: {program} cannot open the lock that all users of iptables share; /run must be writable, or \
         /run/xtables.lock be there (mount it from the host), or XTABLES_LOCKFILE name another place: {message}"
    )]
    NoLock {
        /// The program.
        program: String,
        /// What we were doing.
        operation: &'static str,
        /// Its error output.
        message: String,
    },
    /// We lack the permission.
    #[error(
        "{operation}: {program} is not permitted; run as root or with the capability CAP_NET_ADMIN: {message}"
    )]
    NotPermitted {
        /// The program.
        program: String,
        /// What we were doing.
        operation: &'static str,
        /// Its error output.
        message: String,
    },
    /// A table holds rules that iptables cannot show, so its contents are unknown.
    #[error(
        "reading iptables rules: table {family} {table} holds rules that another program wrote with nft, so iptables does not \
         show it; find them with \"nft list table {family} {table}\" and move them to a table of their own"
    )]
    Unreadable {
        /// The table's family.
        family: Family,
        /// The table.
        table: String,
    },
    /// The installed version is too old.
    #[error("{operation}: {program} is version {version}; install the package iptables, version {}.{}.{} or newer", oldest.0, oldest.1, oldest.2)]
    TooOld {
        /// The program.
        program: String,
        /// What we were doing.
        operation: &'static str,
        /// Its version.
        version: String,
        /// The oldest version that works.
        oldest: (u32, u32, u32),
    },
    /// The command exited with an error.
    #[error("{operation}: {program} failed ({status}): {message}{}", at.as_ref().map(|at| format!("; at {at:?}")).unwrap_or_default())]
    Failed {
        /// The program.
        program: String,
        /// What we were doing.
        operation: &'static str,
        /// How it ended.
        status: String,
        /// Its error output.
        message: String,
        /// The line of the input that was rejected, if it named one.
        at: Option<String>,
    },
    /// A line that cannot be written over netlink. Nothing was written.
    #[error("{operation}: line {number} cannot be written; at {at:?}")]
    Unwritable {
        /// What we were doing.
        operation: &'static str,
        /// The line's number.
        number: usize,
        /// The line.
        at: String,
        /// Why.
        #[source]
        source: RuleError,
    },
    /// The kernel rejected the changes. Nothing was written.
    #[error("{operation}: the kernel rejected them{}", at.as_ref().map(|at| format!("; at {at:?}")).unwrap_or_default())]
    Rejected {
        /// What we were doing.
        operation: &'static str,
        /// The line that was rejected, if it is about one.
        at: Option<String>,
        /// The kernel's reply.
        #[source]
        rejection: Rejection,
    },
    /// A netlink request that failed.
    #[error("{operation}")]
    Netlink {
        /// What we were doing.
        operation: &'static str,
        /// Why.
        #[source]
        source: NetlinkError,
    },
    /// A read that was cancelled.
    #[error("{operation}: cancelled")]
    Cancelled {
        /// What we were doing.
        operation: &'static str,
    },
    /// A failure that a test injected.
    #[error("injected fault")]
    Injected,
}

impl IptablesError {
    /// Whether the command is not installed.
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. })
    }

    /// Whether the kernel has no such tables at all, so that they are certainly empty.
    pub fn has_no_tables(&self) -> bool {
        const ABSENT: [&str; 4] = [
            "Table does not exist",
            "Protocol not supported",
            "Operation not supported",
            "Address family not supported",
        ];
        match self {
            Self::Failed { message, .. } => ABSENT.iter().any(|text| message.contains(text)),
            Self::Netlink { source, .. } => source.rejection().is_some_and(is_unsupported),
            _ => false,
        }
    }

    /// Whether the kernel lacked something for the moment, whatever it was to write: no rule is at fault.
    pub fn is_transient(&self) -> bool {
        use rustix::io::Errno;
        let transient =
            [Errno::NOMEM, Errno::NOBUFS, Errno::AGAIN, Errno::INTR, Errno::NFILE, Errno::MFILE, Errno::BUSY];
        match self {
            Self::Rejected { rejection, .. } => transient.iter().any(|errno| rejection.is(*errno)),
            _ => false,
        }
    }

    /// Whether the tables are certainly unchanged and the same text may succeed later: nothing ran that could have changed
    /// them. A text that was rejected would be rejected again.
    pub fn changed_nothing(&self) -> bool {
        match self {
            // Interrupted: other programs committed each time before the batch had its turn, so the kernel did not begin with it.
            Self::Missing { .. }
            | Self::Locked { .. }
            | Self::Netlink { source: NetlinkError::Interrupted { .. }, .. } => true,
            Self::Run { source, .. } => source.never_ran(),
            _ => false,
        }
    }

    /// Whether another program holds the lock, a condition that ends by itself.
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::LockedMidway { .. })
    }

    /// Whether the command was cancelled.
    pub fn is_cancelled(&self) -> bool {
        matches!(self, Self::Run { source: RunError::Cancelled, .. } | Self::Cancelled { .. })
    }

    /// The line of the input that was rejected, if one was named.
    pub fn rejected_line(&self) -> Option<&str> {
        match self {
            Self::Failed { at, .. } | Self::Rejected { at, .. } => at.as_deref(),
            Self::Unwritable { at, .. } => Some(at),
            _ => None,
        }
    }

    /// The same for a caller that knows the line by another text.
    pub(crate) fn rejected_line_mut(&mut self) -> Option<&mut String> {
        match self {
            Self::Failed { at, .. } | Self::Rejected { at, .. } => at.as_mut(),
            Self::Unwritable { at, .. } => Some(at),
            _ => None,
        }
    }

    /// The error of a command that did not exit by itself.
    pub(super) fn from_run(program: &str, operation: &'static str, source: RunError) -> Self {
        let program = program.to_owned();
        match source {
            RunError::NotFound => Self::Missing { program, operation },
            source => Self::Run { program, operation, source },
        }
    }

    /// The error of a command that exited with a failure.
    pub(super) fn from_exit(program: &str, operation: &'static str, exit: &FailedExit<'_>) -> Self {
        let (program, message) = (program.to_owned(), in_one_line(exit.stderr));
        if message.contains("xtables lock") {
            return Self::LockedMidway { program, operation };
        }
        if message.contains("lock file") {
            return Self::NoLock { program, operation, message };
        }
        if message.contains("Permission denied") || message.contains("Operation not permitted") {
            return Self::NotPermitted { program, operation, message };
        }
        let at = failed_line(&message).and_then(|number| exit.input.lines().nth(number.checked_sub(1)?));
        Self::Failed { program, operation, status: exit.status.clone(), at: at.map(str::to_owned), message }
    }
}

/// Whether the kernel has no part that could do what it was asked for.
fn is_unsupported(rejection: &Rejection) -> bool {
    use rustix::io::Errno;
    // To reads, nfnetlink answers EINVAL where nf_tables is missing.
    let absent = [Errno::OPNOTSUPP, Errno::PROTONOSUPPORT, Errno::AFNOSUPPORT, Errno::INVAL];
    absent.iter().any(|errno| rejection.is(*errno))
}

/// How a command failed.
pub(super) struct FailedExit<'a> {
    pub status: String,
    pub stderr: &'a str,
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

    fn error(stderr: &str) -> IptablesError {
        let exit = FailedExit { status: "exit status: 1".to_owned(), stderr, input: "*nat\n-A x\nCOMMIT\n" };
        IptablesError::from_exit("iptables-restore", "writing", &exit)
    }

    #[test]
    fn a_failure_names_the_line_it_is_about() {
        let text = error("iptables-nft-restore v1.8.9 (nf_tables): \nline 2: RULE_APPEND failed").to_string();
        assert!(text.ends_with("line 2: RULE_APPEND failed; at \"-A x\""), "{text}");
        assert!(error("iptables-restore: line 2 failed").to_string().ends_with("; at \"-A x\""));
        assert!(
            error("unknown option \"-x\" Error occurred at line: 2").to_string().ends_with("; at \"-A x\"")
        );
        assert!(error("iptables-restore: line 99 failed").to_string().ends_with("line 99 failed"));
    }

    #[test]
    fn a_kernel_without_such_tables_has_nothing_in_them() {
        assert!(
            error("can't initialize ip6tables table `nat': Table does not exist (do you need to insmod?)")
                .has_no_tables()
        );
        assert!(error("iptables-nft-save: Failed to initialize nft: Protocol not supported").has_no_tables());
        assert!(!error("Resource temporarily unavailable").has_no_tables());
        assert!(!error("Permission denied (you must be root)").has_no_tables());
    }

    #[test]
    fn a_commit_that_never_had_its_turn_changed_nothing() {
        let failed = |source| IptablesError::Netlink { operation: "writing", source };
        assert!(failed(NetlinkError::Interrupted { operation: "writing", attempts: 64 }).changed_nothing());
        assert!(!failed(NetlinkError::Unreadable { operation: "writing" }).changed_nothing());
    }

    #[test]
    fn a_held_lock_and_a_lack_of_rights_are_told_apart() {
        let held = error("Another app is currently holding the xtables lock; still 3s 0us time ahead");
        assert!(held.is_locked() && !held.changed_nothing());
        let unwritable = error("Fatal: can't open lock file /run/xtables.lock: Read-only file system");
        assert!(unwritable.to_string().contains("/run must be writable"), "{unwritable}");
        assert!(matches!(
            error("Fatal: Permission denied (you must be root)"),
            IptablesError::NotPermitted { .. }
        ));
    }
}
