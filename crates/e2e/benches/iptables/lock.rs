//! Watches a lock, and adds up for how long somebody holds it alone.

use std::fs::{File, TryLockError};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const STEP: Duration = Duration::from_micros(100);

pub struct LockWatch {
    stop: Arc<AtomicBool>,
    micros: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl LockWatch {
    pub fn of(place: &Path) -> Self {
        let (stop, micros) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let file = File::open(place).expect("the lock's file");
        let thread = std::thread::spawn({
            let (stop, micros) = (Arc::clone(&stop), Arc::clone(&micros));
            move || {
                let mut last = Instant::now();
                while !stop.load(Ordering::Relaxed) {
                    let is_held = matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
                    let _ = file.unlock();
                    let passed = last.elapsed();
                    last += passed;
                    if is_held {
                        micros.fetch_add(u64::try_from(passed.as_micros()).unwrap_or(0), Ordering::Relaxed);
                    }
                    std::thread::sleep(STEP);
                }
            }
        });
        Self { stop, micros, thread: Some(thread) }
    }

    /// For how long it was held so far.
    pub fn held(&self) -> Duration {
        Duration::from_micros(self.micros.load(Ordering::Relaxed))
    }
}

impl Drop for LockWatch {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
