//! Directions between real sockets, and the schedule of dials.

use super::*;
