//! Seccomp: denies system calls that neither this process nor its programs ever make, and that could take over a host.
//!
//! A deny list, not an allow list: a library that makes a new call must not cost a node its rules.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use super::SandboxError;

/// Other processes, other kernels, other namespaces, other file systems, other clocks.
const DENIED: [i64; 34] = [
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_reboot,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_open_by_handle_at,
    libc::SYS_acct,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_quotactl,
];

/// From now on these calls fail with EPERM.
pub(super) fn install() -> Result<(), SandboxError> {
    let failed = |error: &dyn std::fmt::Display| SandboxError::Filter(error.to_string());
    let architecture = std::env::consts::ARCH.try_into().map_err(|error| failed(&error))?;
    let rules: BTreeMap<i64, Vec<_>> = DENIED.into_iter().map(|call| (call, Vec::new())).collect();
    let denied = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, denied, architecture);
    let program: BpfProgram =
        filter.and_then(TryInto::try_into).map_err(|error: seccompiler::BackendError| failed(&error))?;
    apply_filter(&program).map_err(|error| failed(&error))
}
