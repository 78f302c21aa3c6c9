//! Why a text is not a rule that can be written.

/// A rule, or a line around it, that cannot be written over netlink. Nothing of it is ever left out silently.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    /// An option that no loaded match or target has.
    #[error("option {0:?} is not known")]
    UnknownOption(String),
    /// A match that is not known.
    #[error("match {0:?} is not known")]
    UnknownMatch(String),
    /// An option without its value.
    #[error("option {0:?} has no value")]
    MissingValue(String),
    /// An option with a value that it cannot have.
    #[error("option {option:?} cannot be {value:?}")]
    BadValue {
        /// The option.
        option: String,
        /// The value.
        value: String,
    },
    /// An option that is there more than once, or together with its opposite.
    #[error("option {0:?} is repeated or contradicts another")]
    Repeated(String),
    /// An option that has no negated form.
    #[error("option {0:?} cannot be negated")]
    NotNegatable(String),
    /// A match or target without an option that it needs.
    #[error("option {0:?} is missing")]
    Incomplete(&'static str),
    /// Quotes that do not enclose a whole word.
    #[error("quotes do not enclose a word")]
    Quotes,
    /// A character that does not belong on a line.
    #[error("the rule contains a control character")]
    ControlCharacter,
    /// A rule of another program that was only read in part.
    #[error("the rule has a part that is not understood, so it cannot be written")]
    NotUnderstood,
    /// A set that does not exist.
    #[error("there is no ipset {0:?}")]
    MissingSet(String),
    /// A line that is not part of a table's changes.
    #[error("this is not a change of a table")]
    UnknownLine,
    /// A table that iptables does not have.
    #[error("there is no table {0:?}")]
    UnknownTable(String),
    /// The name of a chain that no chain can have.
    #[error("a chain cannot be called {0:?}")]
    BadChain(String),
    /// A built-in chain that would be emptied, deleted or given a policy.
    #[error("{0} is a built-in chain, which is never emptied, deleted or given a policy")]
    BuiltIn(String),
    /// A rule to be deleted that does not exist.
    #[error("there is no such rule in chain {0}")]
    MissingRule(String),
}
