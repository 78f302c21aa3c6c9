//! Problems of manifests, as messages for the operator.

use std::fmt;
use std::path::PathBuf;

/// A problem of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// The file, or the directory itself.
    pub file: PathBuf,
    /// Counted from 1; `None` if the problem is not one of a line.
    pub line: Option<usize>,
    /// The problem and its consequence.
    pub kind: ProblemKind,
}

/// The kinds of problems.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProblemKind {
    /// It cannot be opened or read.
    Unreadable(String),
    /// It is not a manifest.
    Broken(String),
    /// It has an object that is already in another file, or earlier in the same one.
    Duplicate {
        /// Kind and name.
        object: String,
        /// The file whose object is used.
        effective_in: PathBuf,
    },
    /// It has Endpoints of a Service that has EndpointSlices too, and they differ.
    EndpointsDisagree(String),
    /// It has an object of a kind that a proxy does not use. Reported once for each kind.
    UnusedKind(String),
    /// A Service without a cluster IP. Without an API server, none is allocated.
    NoClusterIp(String),
}

impl FileProblem {
    /// Whether it is for information only: everything in the files is served.
    pub fn is_note(&self) -> bool {
        match self.kind {
            ProblemKind::UnusedKind(_) => true,
            ProblemKind::Unreadable(_)
            | ProblemKind::Broken(_)
            | ProblemKind::Duplicate { .. }
            | ProblemKind::EndpointsDisagree(_)
            | ProblemKind::NoClusterIp(_) => false,
        }
    }
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl fmt::Display for ProblemKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "cannot be read ({why}), its objects stay as they were"),
            Self::Broken(why) => write!(f, "{why}; the file's objects stay as they were"),
            Self::Duplicate { object, effective_in } => {
                write!(f, "{object} is already in {}; ignored here", effective_in.display())
            }
            Self::EndpointsDisagree(object) => write!(
                f,
                "{object} and the Service's EndpointSlices have different ready endpoints; the EndpointSlices are used, remove \
                 whichever is out of date"
            ),
            Self::UnusedKind(kind) => {
                write!(f, "kind \"{}\" is not used by a proxy, ignored", kind.escape_debug())
            }
            Self::NoClusterIp(service) => {
                write!(f, "Service {service} has no clusterIP, and none is allocated here; not served")
            }
        }
    }
}
