//! Panics of libraries that are expected and caught, as opposed to those that must end the program.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

thread_local! {
    static IS_CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread would be caught and handled right now. For the panic hook, which ends the program
/// otherwise.
pub fn is_catching_panics() -> bool {
    IS_CATCHING.get()
}

/// Runs code of a library that may panic on bad input. The code must not leave shared state half changed.
pub(super) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    let before = IS_CATCHING.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    IS_CATCHING.set(before);
    result
}
