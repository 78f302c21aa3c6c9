//! The one funnel of unsafe calls, and nothing else.
//!
//! Everything here is a thin, safe function over one call that `rustix` or the standard library does not offer safely.
//! Sockets proper are in [`crate::netlink`], and what is made of stacks and allocations in [`crate::profiling`].

#![allow(unsafe_code, reason = "the one file for it; each call says why its conditions hold")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::UnshareFlags;

use crate::profiling::{cpu, heap};

/// Switches on an option of a netlink socket.
pub(crate) fn enable_netlink_option(socket: impl AsFd, option: c_int) -> io::Result<()> {
    let on: c_int = 1;
    let length = libc::socklen_t::try_from(size_of::<c_int>()).expect("the size of an int fits");
    // SAFETY: setsockopt wants an open descriptor, which the borrow guarantees, and a pointer to `length` readable
    // bytes, which `on` is for the whole call. The kernel copies the value and keeps no pointer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_NETLINK,
            option,
            (&raw const on).cast::<c_void>(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Moves the calling thread, and no other, into a new and empty network namespace.
///
/// For tests and demonstrations that must not touch the host's network. The namespace is gone with the last
/// thread, process or socket in it.
pub fn enter_new_network_namespace() -> io::Result<()> {
    // SAFETY: what makes unshare dangerous is CLONE_FILES, after which descriptors of other threads mean something
    // else. CLONE_NEWNET only changes which network this thread's new sockets belong to.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNET) }.map_err(io::Error::from)
}

/// Has the kernel kill a program when the thread that starts it ends, which it also does if this process is killed.
///
/// So the thread must wait for the program. The kernel forgets about it where the program's file has capabilities of its own,
/// and it does not reach what the program starts.
pub(crate) fn kill_with_parent(command: &mut Command) {
    let parent = getpid();
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // Whoever started it may have ended before the kernel was told.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec only calls that are safe in a signal handler are allowed: both are plain system calls, and
    // neither they nor the error, which is a number, allocate or take a lock.
    unsafe { command.pre_exec(before_exec) };
}

/// Keeps the allocator from holding a pool of memory for every thread: ours are few and allocate little, and what one of them frees
/// another can use. To be called before threads are started; does nothing with another C library.
pub fn share_memory_between_threads() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt only sets a limit of the allocator, under its own lock.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Gives memory that was freed back to the system. After a large list was worked through, much of it is free, and the allocator
/// would keep it.
pub fn give_back_freed_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim only releases pages that the allocator itself knows to be free, under its own lock.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// The system's allocator, which tells the heap profile of allocations if that is switched on. Otherwise it costs one load.
#[derive(Debug)]
pub struct ProfiledAllocator;

// SAFETY: every call goes to the system's allocator with the arguments it came with, and its answer goes back unchanged, so
// what `System` guarantees holds. The profile is told addresses as numbers; it does not touch the memory, does not allocate
// and does not unwind.
unsafe impl GlobalAlloc for ProfiledAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise about `layout` is handed on.
        let memory = unsafe { System.alloc(layout) };
        heap::allocated(memory.addr(), layout.size());
        memory
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: as above.
        let memory = unsafe { System.alloc_zeroed(layout) };
        heap::allocated(memory.addr(), layout.size());
        memory
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // First, or another thread could have been given the same address in between.
        heap::freed(memory.addr());
        // SAFETY: the caller's promise about `memory` and `layout` is handed on.
        unsafe { System.dealloc(memory, layout) }
    }

    unsafe fn realloc(&self, memory: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        let moving = heap::Moving::from(memory.addr());
        // SAFETY: the caller's promise about all three is handed on.
        let memory = unsafe { System.realloc(memory, layout, size) };
        moving.to(memory.addr());
        heap::allocated(memory.addr(), size);
        memory
    }
}

/// Has a signal sent to the process for every so much processor time it uses, and the stack of whichever thread it meets
/// handed to the processor profile. With a duration of zero that ends.
///
/// The handler stays for good: a signal that is still on its way would otherwise end the process.
pub(crate) fn interrupt_every(processor_time: Duration) -> io::Result<()> {
    handle_profiling_signals()?;
    let microseconds = libc::suseconds_t::from(processor_time.subsec_micros().cast_signed());
    let time = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: setitimer reads the timer, which lives for the whole call, and may be told that nobody wants the old one.
    let result = unsafe { libc::setitimer(libc::ITIMER_PROF, &raw const timer, std::ptr::null_mut()) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn handle_profiling_signals() -> io::Result<()> {
    let handler: extern "C" fn(c_int, *mut c_void, *mut c_void) = on_profiling_signal;
    // SAFETY: all-zero bytes are a valid sigaction; the call reads it, and the handler has the type that goes with
    // SA_SIGINFO. It runs on the interrupted thread's own stack and is safe there: see below.
    let result = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as usize;
        action.sa_flags = libc::SA_RESTART | libc::SA_SIGINFO;
        libc::sigaction(libc::SIGPROF, &raw const action, std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Interrupts anything anywhere, so it may neither allocate nor take a lock: it walks the stack and writes to atomics.
extern "C" fn on_profiling_signal(_: c_int, _: *mut c_void, context: *mut c_void) {
    // SAFETY: the C library's pointer to this thread's errno is valid for as long as the thread runs.
    let errno = unsafe { *libc::__errno_location() };
    cpu::interrupted(interrupted_at(context));
    // SAFETY: as above. The interrupted code must not see that anything happened.
    unsafe { *libc::__errno_location() = errno };
}

/// The instruction that a signal interrupted, from what the kernel hands to the handler, on machines where it is known how.
#[inline(always)]
#[expect(
    clippy::inline_always,
    reason = "the number of callers to be left out must not depend on the optimiser"
)]
fn interrupted_at(context: *mut c_void) -> Option<usize> {
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    {
        // SAFETY: with SA_SIGINFO the third argument points to the interrupted thread's ucontext, valid until the handler returns.
        let machine = unsafe { &(*context.cast::<libc::ucontext_t>()).uc_mcontext };
        #[cfg(target_arch = "x86_64")]
        let address = machine.gregs[libc::REG_RIP as usize].cast_unsigned();
        #[cfg(target_arch = "aarch64")]
        let address = machine.pc;
        usize::try_from(address).ok()
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = context;
        None
    }
}

/// What the unwinder's callback is given: where addresses go, how many are there, how many are still to be passed over.
struct Walk<'a> {
    addresses: &'a mut [usize],
    found: usize,
    to_skip: usize,
    /// The first caller in here is the last that is written down.
    limit: Range<usize>,
}

unsafe extern "C" {
    fn _Unwind_Backtrace(step: extern "C" fn(*mut c_void, *mut c_void) -> c_int, walk: *mut c_void) -> c_int;
    fn _Unwind_GetIPInfo(context: *mut c_void, is_before: *mut c_int) -> usize;
}

/// Writes down who called whom, innermost first, and returns how many there are. Each address is inside the instruction that
/// calls, or that was interrupted. The first `skipped` callers, of which this function is one, are left out; after a caller whose code is at `limit` the walk ends.
#[inline(never)]
pub(crate) fn walk_stack(addresses: &mut [usize], skipped: usize, limit: Range<usize>) -> usize {
    let mut walk = Walk { addresses, found: 0, to_skip: skipped, limit };
    // SAFETY: the unwinder is the one panics use. It calls `step` with a context of its own and with our pointer, both valid
    // for the call, and keeps neither. Since 2022 (glibc 2.35, gcc 12) it takes no lock; before, one that a thread may take
    // again while it has it. So it may also run in a signal handler.
    unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast::<c_void>()) };
    walk.found
}

extern "C" fn step(context: *mut c_void, walk: *mut c_void) -> c_int {
    const GO_ON: c_int = 0;
    const END_OF_STACK: c_int = 5;
    let mut is_before: c_int = 0;
    // SAFETY: the context is the unwinder's own, for this call; the flag outlives it.
    let address = unsafe { _Unwind_GetIPInfo(context, &raw mut is_before) };
    // SAFETY: this is the `Walk` that `walk_stack` handed over and does not touch meanwhile.
    let walk = unsafe { &mut *walk.cast::<Walk<'_>>() };
    if walk.to_skip > 0 {
        walk.to_skip -= 1;
        return GO_ON;
    }
    let Some(place) = walk.addresses.get_mut(walk.found).filter(|_| address != 0) else {
        return END_OF_STACK;
    };
    // A return address is the instruction after the call, which may belong to something else.
    *place = if is_before == 0 { address - 1 } else { address };
    walk.found += 1;
    if walk.limit.contains(&address) { END_OF_STACK } else { GO_ON }
}
