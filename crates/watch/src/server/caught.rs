//! Panics of libraries that are expected and caught, told apart from those that must end the program.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};

thread_local! {
    static IS_CATCHING: Cell<bool> = const { Cell::new(false) };
}

/// Whether a panic of this thread, right now, is caught and dealt with. For the hook that ends the program on others.
pub fn is_catching_panics() -> bool {
    IS_CATCHING.get()
}

/// Runs something that may panic over bad input, and leaves nothing half done if it does.
pub(super) fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Box<dyn Any + Send>> {
    let before = IS_CATCHING.replace(true);
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    IS_CATCHING.set(before);
    result
}
