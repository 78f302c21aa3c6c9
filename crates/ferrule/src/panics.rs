//! What a panic does: the process ends with one line and exit code 2, whichever thread it happened on.
//!
//! A process that lost one of its threads would stay half alive: healthy by its pages, deaf to its source. The rules stay in
//! the kernel, and whoever runs the process starts it again. Only work that is asked for from outside and stands for
//! itself, such as a page, runs [`contained`]: there a panic is an error like others.

use std::any::Any;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::task::Poll;
use std::thread;

use ferrule_kernel::subprocess;
use ferrule_watch::server::is_catching_panics;
use tracing::{error, info};

use crate::logging::last_words;

/// The exit code of a process that panicked; Go programs have the same.
pub const EXIT_CODE: i32 = 2;

/// What a panic said.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("panicked at {location}: {message}")]
pub struct Panicked {
    /// The panic's own words.
    pub message: String,
    /// The source file, line and column; empty if unknown.
    pub location: String,
}

thread_local! {
    /// How many calls of `contained` this thread is inside of.
    static CONTAINED: Cell<u32> = const { Cell::new(0) };
    static LAST: RefCell<Option<Panicked>> = const { RefCell::new(None) };
}

/// From now on a panic on any thread ends the process, unless it is contained. To be called before anything else.
pub fn end_the_process() {
    panic::set_hook(Box::new(|info| {
        // A panic of a library that its caller expects and deals with is no reason either.
        if CONTAINED.get() == 0 && !is_catching_panics() {
            end(info);
        }
        LAST.set(Some(Panicked::described(info)));
    }));
}

/// Runs work whose panic is an error of its own and nobody else's.
pub fn contained<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    CONTAINED.set(CONTAINED.get() + 1);
    // What the work left half done is not used again: a page keeps no state, a connection is closed.
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    CONTAINED.set(CONTAINED.get() - 1);
    result.map_err(|payload| LAST.take().unwrap_or_else(|| Panicked::of(&*payload)))
}

/// The same for a future: each time it is polled.
pub async fn contained_future<F: Future>(future: F) -> Result<F::Output, Panicked> {
    let mut future = pin!(future);
    poll_fn(|context| match contained(|| future.as_mut().poll(context)) {
        Ok(poll) => poll.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

fn end(info: &PanicHookInfo<'_>) {
    static ENDING: AtomicBool = AtomicBool::new(false);
    if ENDING.swap(true, Ordering::SeqCst) {
        // Another thread ends the process, and tells of its own panic, which may be the cause of this one.
        loop {
            thread::park();
        }
    }
    let Panicked { message, location } = Panicked::described(info);
    let current = thread::current();
    let mut fields = vec![("thread", current.name().unwrap_or("unnamed")), ("location", location.as_str())];
    let trace = Backtrace::capture();
    let trace = (trace.status() == BacktraceStatus::Captured).then(|| trace.to_string());
    fields.extend(trace.as_deref().map(|trace| ("backtrace", trace)));
    let told = "A thread panicked, exiting; the rules stay in the kernel";
    last_words(told, &message, &fields, info.location());
    subprocess::end_all_at_once();
    std::process::exit(EXIT_CODE);
}

impl Panicked {
    /// Logs a contained panic: as an error the first time at its place in the source, at verbosity 2 from then on, since
    /// whoever asks for a page can ask again and again.
    pub fn tell(&self, what: &str) {
        static TOLD: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let mut told = TOLD.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = told.insert(self.location.clone());
        drop(told);
        if is_first {
            error!(err = %self, what, "Answering failed, the rest goes on");
        } else {
            info!(v = 2, err = %self, what, "Answering failed again");
        }
    }

    fn described(info: &PanicHookInfo<'_>) -> Self {
        let location = info.location().map(ToString::to_string).unwrap_or_default();
        Self { message: words(info.payload()), location }
    }

    fn of(payload: &(dyn Any + Send)) -> Self {
        Self { message: words(payload), location: String::new() }
    }
}

fn words(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contained_panic_is_an_error_and_the_thread_goes_on() {
        let failed = contained(|| -> u8 { panic!("page {}", 7) }).expect_err("it panicked");
        assert_eq!(failed.message, "page 7");
        assert_eq!(contained(|| 1), Ok(1));
        assert_eq!(CONTAINED.get(), 0);
    }

    #[test]
    fn a_contained_future_is_an_error_in_whichever_poll_it_panics() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let later = async {
            tokio::task::yield_now().await;
            panic!("later");
        };
        let failed: Result<(), _> = runtime.block_on(contained_future(later));
        assert_eq!(failed.expect_err("it panicked").message, "later");
        assert_eq!(runtime.block_on(contained_future(async { 1 })), Ok(1));
    }
}
