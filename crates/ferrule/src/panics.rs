//! Panics: on any thread they end the process with one log line and exit code 2.
//!
//! A process that lost a thread would stay half alive: healthy by its endpoints, but without updates. The rules stay in the
//! kernel, and the supervisor restarts the process. Only self-contained work on behalf of a client, such as an HTTP request, runs
//! [`contained`]: there a panic is an error like any other.

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

use crate::logging::write_final_line;

/// The exit code of a process that panicked; Go programs have the same.
pub const EXIT_CODE: i32 = 2;

/// A caught panic.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("panicked at {location}: {message}")]
pub struct Panicked {
    /// The panic message.
    pub message: String,
    /// The source file, line and column; empty if unknown.
    pub location: String,
}

thread_local! {
    /// The nesting depth of `contained` on this thread.
    static CONTAINED: Cell<u32> = const { Cell::new(0) };
    static LAST: RefCell<Option<Panicked>> = const { RefCell::new(None) };
}

/// From now on a panic on any thread ends the process, unless it is contained. To be called first.
pub fn install_hook() {
    panic::set_hook(Box::new(|info| {
        // Nor does a library's panic that its caller catches.
        if CONTAINED.get() == 0 && !is_catching_panics() {
            exit_process(info);
        }
        LAST.set(Some(Panicked::from_hook(info)));
    }));
}

/// Runs work whose panic is returned as an error.
pub fn contained<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    CONTAINED.set(CONTAINED.get() + 1);
    // Nothing uses what the work left half done: a handler keeps no state, a connection is closed.
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    CONTAINED.set(CONTAINED.get() - 1);
    result.map_err(|payload| LAST.take().unwrap_or_else(|| Panicked::from_payload(&*payload)))
}

/// Like [`contained`], for every poll of a future.
pub async fn contained_future<F: Future>(future: F) -> Result<F::Output, Panicked> {
    let mut future = pin!(future);
    poll_fn(|context| match contained(|| future.as_mut().poll(context)) {
        Ok(poll) => poll.map(Ok),
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

fn exit_process(info: &PanicHookInfo<'_>) {
    static ENDING: AtomicBool = AtomicBool::new(false);
    if ENDING.swap(true, Ordering::SeqCst) {
        // Another thread is ending the process and reports its own panic, which may be the cause of this one.
        loop {
            thread::park();
        }
    }
    let Panicked { message, location } = Panicked::from_hook(info);
    let current = thread::current();
    let mut fields = vec![("thread", current.name().unwrap_or("unnamed")), ("location", location.as_str())];
    let trace = Backtrace::capture();
    let trace = (trace.status() == BacktraceStatus::Captured).then(|| trace.to_string());
    fields.extend(trace.as_deref().map(|trace| ("backtrace", trace)));
    let line = "A thread panicked, exiting; the rules stay in the kernel";
    write_final_line(line, &message, &fields, info.location());
    subprocess::try_kill_all();
    std::process::exit(EXIT_CODE);
}

impl Panicked {
    /// Logs a contained panic: as an error the first time for each place in the source, at verbosity 2 from then on, since a
    /// client can repeat its request without end.
    pub fn log(&self, what: &str) {
        static LOGGED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let mut logged = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
        let is_first = logged.insert(self.location.clone());
        drop(logged);
        if is_first {
            error!(err = %self, what, "Request handler panicked");
        } else {
            info!(v = 2, err = %self, what, "Request handler panicked again");
        }
    }

    fn from_hook(info: &PanicHookInfo<'_>) -> Self {
        let location = info.location().map(ToString::to_string).unwrap_or_default();
        Self { message: message_of(info.payload()), location }
    }

    fn from_payload(payload: &(dyn Any + Send)) -> Self {
        Self { message: message_of(payload), location: String::new() }
    }
}

fn message_of(payload: &(dyn Any + Send)) -> String {
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
