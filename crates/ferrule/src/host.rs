//! Host settings that are written before anything is served: limits and timeouts of conntrack, and this process's OOM score.
//!
//! `conntrack` says what to write, in kube-proxy's order; [`tune`] writes it. What cannot be written (a read-only
//! `/proc/sys`, no such module, a network namespace that is not the host's) costs one log line and nothing else: packets flow
//! without it. Settings of a mode are the mode's own.

mod conntrack;
mod cpus;
mod files;

use std::thread;
use std::time::Duration;

use ferrule_config::settings::Settings;
use tracing::{info, warn};

use conntrack::set_conntrack;
use ferrule_model::with_causes;
pub use files::{HostFiles, RealFiles};

const OOM_SCORE_ADJ: &str = "/proc/self/oom_score_adj";
/// The file is tried twice, this long apart, as kube-proxy does, unless we lack the permission.
const RETRY_DELAY: Duration = Duration::from_millis(100);

/// Applies the settings; logs and returns what could not be written.
pub fn tune(settings: &Settings, files: &mut impl HostFiles) -> Option<String> {
    let cpus = cpus::online(files);
    let unwritten = set_conntrack(&settings.conntrack, cpus, files);
    if unwritten.is_empty() {
        return None;
    }
    let names: Vec<_> = unwritten.iter().map(|error| with_causes(error)).collect();
    let problem = names.join("; ");
    warn!(
        problem,
        "Kernel settings stay as they are; run as root on the host, or set the fields under conntrack to 0"
    );
    Some(problem)
}

/// Sets how readily the kernel kills this process when memory runs out. Lowering it needs a capability that is dropped afterwards.
#[expect(
    clippy::disallowed_methods,
    reason = "there is no state to wait for: the kernel may accept the second write"
)]
pub fn adjust_oom_score(score: i32, files: &mut impl HostFiles) {
    let value = score.to_string();
    let first = files.write(OOM_SCORE_ADJ, &value);
    let result = first.or_else(|error| {
        if error.is_not_permitted() {
            return Err(error);
        }
        thread::sleep(RETRY_DELAY);
        files.write(OOM_SCORE_ADJ, &value)
    });
    if let Err(error) = result {
        info!(v = 2, err = with_causes(&error), "Cannot set the OOM score");
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use ferrule_kernel::sysctl::SysctlError;

    use super::*;

    /// A host on which nothing can be written, for one reason.
    struct Refusing(io::ErrorKind, usize);

    impl HostFiles for Refusing {
        fn read(&self, path: &str) -> Result<String, SysctlError> {
            Err(SysctlError::Read { path: path.into(), source: self.0.into() })
        }

        fn write(&mut self, path: &str, value: &str) -> Result<(), SysctlError> {
            self.1 += 1;
            Err(SysctlError::Write { path: path.into(), value: value.into(), source: self.0.into() })
        }
    }

    #[test]
    fn the_oom_score_is_tried_twice_but_for_a_lack_of_permission() {
        for (why, tries) in [(io::ErrorKind::NotFound, 2), (io::ErrorKind::PermissionDenied, 1)] {
            let mut files = Refusing(why, 0);
            adjust_oom_score(-999, &mut files);
            assert_eq!(files.1, tries, "{why}");
        }
    }
}
