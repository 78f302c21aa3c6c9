//! The system calls that container runtimes allow by default (`seccompProfile: RuntimeDefault`), for a container without
//! `CAP_SYS_ADMIN`: everything else is refused with EPERM, `clone3` with ENOSYS.
//!
//! Allows nothing that Docker's or containerd's list does not, and leaves out calls of theirs that nobody here makes.

use std::collections::BTreeMap;
use std::io;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use crate::table::{Seen, Table};
use crate::victim::Victim;

pub fn attack(table: &mut Table) {
    table.group("careless operator");
    let modes = [
        ("nftables", "serves, repairs, and ends without an error when asked"),
        ("iptables", "serves, and ends without an error when asked"),
    ];
    for (mode, expected) in modes {
        table.attack(format!("{mode}: the container runtime's default seccomp profile"), expected, || {
            serves(mode)
        });
    }
}

fn serves(mode: &str) -> Seen {
    let victim = Victim::restricted(mode, || restrict().map_err(io::Error::other));
    let status = std::fs::read_to_string(format!("/proc/{}/status", victim.program.id())).unwrap_or_default();
    if !status.contains("Seccomp:\t2") {
        return Err("the profile is not in effect".into());
    }
    let seen = victim.is_well()?;
    if mode == "nftables" {
        let said = victim.program.said();
        victim.stand.nft(&["flush", "table", "ip", "kube-proxy"]);
        victim.is_well_and_said(said, "repaired")?;
    }
    if let Some(line) = victim.program.log().iter().find(|line| line.contains("Operation not permitted")) {
        return Err(line.clone());
    }
    let status = victim.program.terminate().map_err(|error| error.to_string())?;
    if status.success() { Ok(seen) } else { Err(format!("it ended with {status}")) }
}

/// Restricts this thread, and all it starts, for good.
fn restrict() -> Result<(), seccompiler::Error> {
    let architecture = std::env::consts::ARCH.try_into().map_err(seccompiler::Error::Backend)?;
    let refuse = |errno: i32| SeccompAction::Errno(errno.cast_unsigned());
    let install = |rules, otherwise, matching| {
        let filter = SeccompFilter::new(rules, otherwise, matching, architecture);
        let program: BpfProgram = filter.and_then(TryInto::try_into).map_err(seccompiler::Error::Backend)?;
        apply_filter(&program)
    };
    let unknown = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    install(unknown, SeccompAction::Allow, refuse(libc::ENOSYS))?;
    let rules = allowed().map_err(seccompiler::Error::Backend)?;
    install(rules, refuse(libc::EPERM), SeccompAction::Allow)
}

fn allowed() -> Result<BTreeMap<i64, Vec<SeccompRule>>, BackendError> {
    const NEW_NAMESPACES: u64 = 0x7e02_0000;
    const VSOCK: u64 = 40;
    let rule = |operator, value| {
        let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, operator, value)?;
        SeccompRule::new(vec![condition])
    };
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        ALLOWED.iter().chain(LEGACY).map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_clone, vec![rule(SeccompCmpOp::MaskedEq(NEW_NAMESPACES), 0)?]);
    rules.insert(libc::SYS_socket, vec![rule(SeccompCmpOp::Ne, VSOCK)?]);
    // The other filter answers it.
    rules.insert(libc::SYS_clone3, Vec::new());
    Ok(rules)
}

#[rustfmt::skip]
const ALLOWED: &[i64] = &[
    libc::SYS_accept, libc::SYS_accept4, libc::SYS_bind, libc::SYS_brk, libc::SYS_capget, libc::SYS_capset, libc::SYS_chdir,
    libc::SYS_clock_getres, libc::SYS_clock_gettime, libc::SYS_clock_nanosleep, libc::SYS_close, libc::SYS_close_range,
    libc::SYS_connect, libc::SYS_copy_file_range, libc::SYS_dup, libc::SYS_dup3, libc::SYS_epoll_create1, libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_eventfd2, libc::SYS_execve, libc::SYS_execveat, libc::SYS_exit,
    libc::SYS_exit_group, libc::SYS_faccessat, libc::SYS_faccessat2, libc::SYS_fadvise64, libc::SYS_fallocate, libc::SYS_fchdir,
    libc::SYS_fchmod, libc::SYS_fchmodat, libc::SYS_fchown, libc::SYS_fchownat, libc::SYS_fcntl, libc::SYS_fdatasync,
    libc::SYS_fgetxattr, libc::SYS_flistxattr, libc::SYS_flock, libc::SYS_fremovexattr, libc::SYS_fsetxattr, libc::SYS_fstat,
    libc::SYS_fstatfs, libc::SYS_fsync, libc::SYS_ftruncate, libc::SYS_futex, libc::SYS_futex_waitv, libc::SYS_get_robust_list,
    libc::SYS_getcpu, libc::SYS_getcwd, libc::SYS_getdents64, libc::SYS_getegid, libc::SYS_geteuid, libc::SYS_getgid,
    libc::SYS_getgroups, libc::SYS_getitimer, libc::SYS_getpeername, libc::SYS_getpgid, libc::SYS_getpid, libc::SYS_getppid,
    libc::SYS_getpriority, libc::SYS_getrandom, libc::SYS_getresgid, libc::SYS_getresuid, libc::SYS_getrlimit,
    libc::SYS_getrusage, libc::SYS_getsid, libc::SYS_getsockname, libc::SYS_getsockopt, libc::SYS_gettid, libc::SYS_gettimeofday,
    libc::SYS_getuid, libc::SYS_getxattr, libc::SYS_inotify_add_watch, libc::SYS_inotify_init1, libc::SYS_inotify_rm_watch,
    libc::SYS_ioctl, libc::SYS_kill, libc::SYS_landlock_add_rule, libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_restrict_self, libc::SYS_linkat, libc::SYS_listen, libc::SYS_lseek, libc::SYS_madvise,
    libc::SYS_membarrier, libc::SYS_memfd_create, libc::SYS_mincore, libc::SYS_mkdirat, libc::SYS_mknodat, libc::SYS_mlock,
    libc::SYS_mlock2, libc::SYS_mlockall, libc::SYS_mmap, libc::SYS_mprotect, libc::SYS_mremap, libc::SYS_msync,
    libc::SYS_munlock, libc::SYS_munlockall, libc::SYS_munmap, libc::SYS_nanosleep, libc::SYS_newfstatat, libc::SYS_openat,
    libc::SYS_openat2, libc::SYS_pidfd_open, libc::SYS_pidfd_send_signal, libc::SYS_pipe2, libc::SYS_ppoll, libc::SYS_prctl,
    libc::SYS_pread64, libc::SYS_preadv, libc::SYS_preadv2, libc::SYS_prlimit64, libc::SYS_pselect6, libc::SYS_pwrite64,
    libc::SYS_pwritev, libc::SYS_pwritev2, libc::SYS_read, libc::SYS_readahead, libc::SYS_readlinkat, libc::SYS_readv,
    libc::SYS_recvfrom, libc::SYS_recvmmsg, libc::SYS_recvmsg, libc::SYS_renameat, libc::SYS_renameat2,
    libc::SYS_restart_syscall, libc::SYS_rseq, libc::SYS_rt_sigaction, libc::SYS_rt_sigpending, libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigqueueinfo, libc::SYS_rt_sigreturn, libc::SYS_rt_sigsuspend, libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_tgsigqueueinfo, libc::SYS_sched_get_priority_max, libc::SYS_sched_get_priority_min, libc::SYS_sched_getaffinity,
    libc::SYS_sched_getattr, libc::SYS_sched_getparam, libc::SYS_sched_getscheduler, libc::SYS_sched_setaffinity,
    libc::SYS_sched_yield, libc::SYS_seccomp, libc::SYS_sendfile, libc::SYS_sendmmsg, libc::SYS_sendmsg, libc::SYS_sendto,
    libc::SYS_set_robust_list, libc::SYS_set_tid_address, libc::SYS_setgid, libc::SYS_setgroups, libc::SYS_setitimer,
    libc::SYS_setpgid, libc::SYS_setpriority, libc::SYS_setregid, libc::SYS_setresgid, libc::SYS_setresuid, libc::SYS_setreuid,
    libc::SYS_setrlimit, libc::SYS_setsid, libc::SYS_setsockopt, libc::SYS_setuid, libc::SYS_shutdown, libc::SYS_sigaltstack,
    libc::SYS_signalfd4, libc::SYS_socketpair, libc::SYS_splice, libc::SYS_statfs, libc::SYS_statx, libc::SYS_symlinkat,
    libc::SYS_sync, libc::SYS_sysinfo, libc::SYS_tee, libc::SYS_tgkill, libc::SYS_timer_create, libc::SYS_timer_delete,
    libc::SYS_timer_getoverrun, libc::SYS_timer_gettime, libc::SYS_timer_settime, libc::SYS_timerfd_create,
    libc::SYS_timerfd_gettime, libc::SYS_timerfd_settime, libc::SYS_times, libc::SYS_tkill, libc::SYS_truncate, libc::SYS_umask,
    libc::SYS_uname, libc::SYS_unlinkat, libc::SYS_utimensat, libc::SYS_wait4, libc::SYS_waitid, libc::SYS_write,
    libc::SYS_writev,
];

/// Calls that newer machines do without.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const LEGACY: &[i64] = &[
    libc::SYS_access, libc::SYS_alarm, libc::SYS_arch_prctl, libc::SYS_chmod, libc::SYS_chown, libc::SYS_creat, libc::SYS_dup2,
    libc::SYS_epoll_create, libc::SYS_epoll_wait, libc::SYS_eventfd, libc::SYS_fork, libc::SYS_futimesat, libc::SYS_getdents,
    libc::SYS_getpgrp, libc::SYS_inotify_init, libc::SYS_lchown, libc::SYS_link, libc::SYS_lstat, libc::SYS_mkdir, libc::SYS_mknod,
    libc::SYS_open, libc::SYS_pause, libc::SYS_pipe, libc::SYS_poll, libc::SYS_readlink, libc::SYS_rename, libc::SYS_rmdir,
    libc::SYS_select, libc::SYS_signalfd, libc::SYS_stat, libc::SYS_symlink, libc::SYS_time, libc::SYS_unlink, libc::SYS_utime,
    libc::SYS_utimes, libc::SYS_vfork,
];
#[cfg(not(target_arch = "x86_64"))]
const LEGACY: &[i64] = &[];
