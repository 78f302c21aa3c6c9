//! What is wrong with a folder of manifests, said to the user.

use std::fmt;
use std::path::PathBuf;

/// Something about a file that the user should know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    /// The file, or the folder itself.
    pub file: PathBuf,
    /// The line, counted from 1, if it is about one.
    pub line: Option<usize>,
    /// What is wrong, and what follows from it.
    pub what: Wrong,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// It cannot be opened or read.
    Unreadable(String),
    /// It is no manifest.
    Broken(String),
    /// It has an object that another file, or an earlier part of the same one, has too.
    Duplicate {
        /// The object's kind and name.
        object: String,
        /// The file whose object counts.
        counts: PathBuf,
    },
    /// It has an object of a kind that a proxy does not read. Said once for each kind.
    UnusedKind(String),
    /// A Service without a cluster IP, and nobody to give it one.
    NoClusterIp(String),
}

impl FileProblem {
    /// Whether it is only a note: everything is served as the files say.
    pub fn is_note(&self) -> bool {
        match self.what {
            Wrong::UnusedKind(_) => true,
            Wrong::Unreadable(_) | Wrong::Broken(_) | Wrong::Duplicate { .. } | Wrong::NoClusterIp(_) => {
                false
            }
        }
    }
}

impl fmt::Display for FileProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        write!(f, ": {}", self.what)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(why) => write!(f, "cannot be read ({why}), its objects stay as they were"),
            Self::Broken(why) => write!(f, "{why}; the file's objects stay as they were"),
            Self::Duplicate { object, counts } => {
                write!(f, "{object} is in {} too, where it counts; ignored here", counts.display())
            }
            Self::UnusedKind(kind) => {
                write!(f, "kind \"{}\" is none a proxy reads, ignored", kind.escape_debug())
            }
            Self::NoClusterIp(service) => {
                write!(f, "Service {service} has no clusterIP and nobody here gives it one, not served")
            }
        }
    }
}
