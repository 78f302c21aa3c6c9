//! The rows of the specification that need no kernel: one in memory takes its place.
