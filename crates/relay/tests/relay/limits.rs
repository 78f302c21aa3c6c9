//! Limits, floods and peers that do not read.

use crate::servers::*;
