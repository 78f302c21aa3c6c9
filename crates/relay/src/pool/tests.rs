//! The choice of endpoints, with times that the test chooses.

use super::*;
