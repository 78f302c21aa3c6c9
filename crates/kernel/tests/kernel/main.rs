//! Tests against the real kernel, each in a network namespace of its own.

#[cfg(test)]
mod host;
#[cfg(test)]
mod support;
#[cfg(test)]
mod tables;
