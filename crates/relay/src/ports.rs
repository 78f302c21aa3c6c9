//! Ports for listening sockets: from a range, or any that the kernel has.

use std::fmt;
use std::str::FromStr;

use crate::random::Random;

/// Where ports may come from: `--proxy-port-range`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PortRange {
    /// Any port: the kernel chooses.
    #[default]
    Any,
    /// These, both ends included.
    Between {
        /// At least 1.
        first: u16,
        /// At least `first`.
        last: u16,
    },
}

/// Why a text is not a range of ports.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\"{text}\" is not a range of ports: {problem}; write \"N\", \"A-B\" or \"A+offset\"")]
pub struct PortRangeError {
    text: String,
    problem: &'static str,
}

/// There is no port left in the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no remaining ports")]
pub struct NoPortsLeft;

/// Hands out the ports of a range, each to one owner at a time.
#[derive(Debug)]
pub struct PortAllocator {
    range: PortRange,
    /// One for each port of the range.
    used: Vec<bool>,
    random: Random,
}

impl PortAllocator {
    /// All ports of the range are free.
    pub fn new(range: PortRange) -> Self {
        Self { range, used: vec![false; range.len()], random: Random::new() }
    }

    /// A free port. Zero lets the kernel choose, if any port will do.
    ///
    /// Starts at a random port, so that a port that was just released is not the next one used.
    pub fn allocate(&mut self) -> Result<u16, NoPortsLeft> {
        let PortRange::Between { first, .. } = self.range else { return Ok(0) };
        let count = self.used.len();
        let start = self.random.below(count);
        let index = (0..count)
            .map(|offset| (start + offset) % count)
            .find(|index| !self.used[*index])
            .ok_or(NoPortsLeft)?;
        self.used[index] = true;
        let offset = u16::try_from(index).map_err(|_| NoPortsLeft)?;
        first.checked_add(offset).ok_or(NoPortsLeft)
    }

    /// Makes this port the caller's, if it is in the range and free: for sockets taken over from another process.
    pub fn claim(&mut self, port: u16) -> bool {
        match self.index_of(port) {
            Some(index) => !std::mem::replace(&mut self.used[index], true),
            None => false,
        }
    }

    /// Makes a port free again. A port outside of the range is ignored.
    pub fn release(&mut self, port: u16) {
        if let Some(index) = self.index_of(port) {
            self.used[index] = false;
        }
    }

    /// The range.
    pub fn range(&self) -> PortRange {
        self.range
    }

    fn index_of(&self, port: u16) -> Option<usize> {
        match self.range {
            PortRange::Any => None,
            PortRange::Between { first, last } => {
                (first..=last).contains(&port).then(|| usize::from(port - first))
            }
        }
    }
}

impl PortRange {
    fn len(self) -> usize {
        match self {
            Self::Any => 0,
            Self::Between { first, last } => usize::from(last - first) + 1,
        }
    }
}

impl FromStr for PortRange {
    type Err = PortRangeError;

    fn from_str(text: &str) -> Result<Self, PortRangeError> {
        let error = |problem| PortRangeError { text: text.to_owned(), problem };
        let number = |digits: &str| {
            let number: u32 = digits.trim().parse().map_err(|_| error("a port is a number"))?;
            u16::try_from(number).map_err(|_| error("a port is at most 65535"))
        };
        let trimmed = text.trim();
        let (first, last) = if trimmed.is_empty() {
            (0, 0)
        } else if let Some((first, last)) = trimmed.split_once('-') {
            (number(first)?, number(last)?)
        } else if let Some((first, offset)) = trimmed.split_once('+') {
            let first = number(first)?;
            let last = first.checked_add(number(offset)?).ok_or_else(|| error("a port is at most 65535"))?;
            (first, last)
        } else {
            (number(trimmed)?, number(trimmed)?)
        };
        match (first, last) {
            (0, 0) => Ok(Self::Any),
            _ if last < first => Err(error("it ends before it begins")),
            (0, _) => Err(error("port 0 means any port and cannot begin a range")),
            _ => Ok(Self::Between { first, last }),
        }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any port"),
            Self::Between { first, last } => write!(f, "{first}-{last}"),
        }
    }
}

#[cfg(test)]
mod tests;
