//! The one funnel of unsafe calls, and nothing else.
//!
//! Everything here is a thin, safe function over one call that `rustix` or the standard library does not offer safely.
//! Sockets are in [`crate::netlink`], profiles in [`crate::profiling`].

#![allow(unsafe_code, reason = "the one file for it; each call says why its conditions hold")]

use std::alloc::{GlobalAlloc, Layout, System};
#[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
use std::ffi::c_char;
use std::ffi::{c_int, c_void};
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::time::Duration;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};
use rustix::thread::UnshareFlags;

use crate::datagrams::{MAX_DATAGRAMS, NAME_LENGTH, ReceiveSlot, SendSlot};
use crate::profiling::{cpu, heap};

/// Enables an option of a netlink socket.
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

/// Enables an option of a socket whose value is an int.
pub(crate) fn enable_option(socket: impl AsFd, level: c_int, option: c_int) -> io::Result<()> {
    set_option(socket, (level, option), 1)
}

/// Has a socket take only what comes in at one interface, by its index.
pub(crate) fn bind_to_interface(socket: impl AsFd, index: c_int) -> io::Result<()> {
    set_option(socket, (libc::SOL_SOCKET, libc::SO_BINDTOIFINDEX), index)
}

fn set_option(socket: impl AsFd, (level, option): (c_int, c_int), value: c_int) -> io::Result<()> {
    let length = libc::socklen_t::try_from(size_of::<c_int>()).expect("the size of an int fits");
    // SAFETY: as for options of netlink sockets: an open descriptor, and `length` readable bytes for the whole call.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            level,
            option,
            (&raw const value).cast::<c_void>(),
            length,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The descriptors that systemd passed to this process: those from number 3 on. Call it once.
pub(crate) fn passed_descriptors(count: usize) -> Vec<OwnedFd> {
    const FIRST: RawFd = 3;
    let numbers = (FIRST..).take(count);
    // SAFETY: the borrow lasts for the call alone, in which an unused number is answered with an error.
    let is_open =
        |number: &RawFd| rustix::io::fcntl_getfd(unsafe { BorrowedFd::borrow_raw(*number) }).is_ok();
    // SAFETY: by systemd's protocol these descriptors are this process's own, passed to it for good, and nothing else has
    // claimed them: the caller calls once.
    numbers.filter(is_open).map(|number| unsafe { OwnedFd::from_raw_fd(number) }).collect()
}

/// Receives as many datagrams as are there, at most one for each slot and [`MAX_DATAGRAMS`], without waiting.
pub(crate) fn receive_datagrams(socket: impl AsFd, slots: &mut [ReceiveSlot]) -> io::Result<usize> {
    // SAFETY: all-zero bytes are valid for these structures of integers and pointers.
    let mut vectors: [libc::iovec; MAX_DATAGRAMS] = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut messages: [libc::mmsghdr; MAX_DATAGRAMS] = unsafe { std::mem::zeroed() };
    let mut count: libc::c_uint = 0;
    for ((slot, vector), message) in slots.iter_mut().zip(&mut vectors).zip(&mut messages) {
        vector.iov_base = slot.payload.as_mut_ptr().cast::<c_void>();
        vector.iov_len = slot.payload.len();
        let header = &mut message.msg_hdr;
        header.msg_name = slot.name.as_mut_ptr().cast::<c_void>();
        header.msg_namelen = NAME_LENGTH;
        header.msg_iov = vector;
        header.msg_iovlen = 1;
        header.msg_control = slot.control.as_mut_ptr().cast::<c_void>();
        header.msg_controllen = size_of_val(&slot.control) as _;
        count += 1;
    }
    let flags = libc::MSG_DONTWAIT as _;
    // SAFETY: recvmmsg writes to `count` messages, and through them to a payload, a name and a control buffer of the lengths
    // given: distinct parts of `slots`, which is borrowed exclusively for the whole call. No time-out is given.
    let received = unsafe {
        libc::recvmmsg(socket.as_fd().as_raw_fd(), messages.as_mut_ptr(), count, flags, std::ptr::null_mut())
    };
    let received = usize::try_from(received).map_err(|_| io::Error::last_os_error())?;
    for (slot, message) in slots.iter_mut().zip(&messages).take(received) {
        slot.length = (message.msg_len as usize).min(slot.payload.len());
        slot.name_length = (message.msg_hdr.msg_namelen as usize).min(slot.name.len());
        slot.control_length = message.msg_hdr.msg_controllen.min(size_of_val(&slot.control));
    }
    Ok(received)
}

/// Sends messages, at most [`MAX_DATAGRAMS`] of as many pieces in all, without waiting, and returns how many were sent. An error is
/// that of the first.
pub(crate) fn send_datagrams(socket: impl AsFd, slots: &[SendSlot<'_>]) -> io::Result<usize> {
    // SAFETY: all-zero bytes are valid for these structures of integers and pointers.
    let mut vectors: [libc::iovec; MAX_DATAGRAMS] = unsafe { std::mem::zeroed() };
    // SAFETY: as above.
    let mut messages: [libc::mmsghdr; MAX_DATAGRAMS] = unsafe { std::mem::zeroed() };
    let mut count: libc::c_uint = 0;
    let mut free = &mut vectors[..];
    for (slot, message) in slots.iter().zip(&mut messages) {
        let Some((own, others)) = free.split_at_mut_checked(slot.pieces.len()) else { break };
        free = others;
        for (piece, vector) in slot.pieces.iter().zip(own.iter_mut()) {
            vector.iov_base = piece.payload.as_ptr().cast_mut().cast::<c_void>();
            vector.iov_len = piece.payload.len();
        }
        let header = &mut message.msg_hdr;
        header.msg_iov = own.as_mut_ptr();
        header.msg_iovlen = own.len() as _;
        if let Ok(length @ 1..) = libc::socklen_t::try_from(slot.name().len()) {
            header.msg_name = slot.name().as_ptr().cast_mut().cast::<c_void>();
            header.msg_namelen = length;
        }
        if !slot.control().is_empty() {
            header.msg_control = slot.control().as_ptr().cast_mut().cast::<c_void>();
            header.msg_controllen = slot.control().len() as _;
        }
        count += 1;
    }
    let flags = (libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as _;
    // SAFETY: sendmmsg reads `count` messages, and through them vectors, payloads, names and control data of the lengths given: the
    // vectors live here, each message has its own, and the rest lives as long as `slots`. It writes only to the length of each message.
    let sent = unsafe { libc::sendmmsg(socket.as_fd().as_raw_fd(), messages.as_mut_ptr(), count, flags) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

/// Makes a netlink socket receive only datagrams whose first message has this type.
pub(crate) fn receive_only_kind(socket: impl AsFd, kind: u16) -> io::Result<()> {
    const OFFSET_OF_KIND: u32 = 4;
    const ALL_BYTES: u32 = u32::MAX;
    let step = |code: u32, k: u32| {
        let code = u16::try_from(code).expect("the codes of these steps fit");
        libc::sock_filter { code, jt: 0, jf: 0, k }
    };
    // The filter reads numbers as big-endian ones; headers have the machine's order.
    let wanted = u32::from(u16::from_be_bytes(kind.to_ne_bytes()));
    let mut steps = [
        step(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, OFFSET_OF_KIND),
        libc::sock_filter { jf: 1, ..step(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, wanted) },
        step(libc::BPF_RET | libc::BPF_K, ALL_BYTES),
        step(libc::BPF_RET | libc::BPF_K, 0),
    ];
    let len = libc::c_ushort::try_from(steps.len()).expect("there are four");
    let program = libc::sock_fprog { len, filter: steps.as_mut_ptr() };
    let length =
        libc::socklen_t::try_from(size_of::<libc::sock_fprog>()).expect("the size of two fields fits");
    // SAFETY: setsockopt wants an open descriptor, which the borrow guarantees, and a pointer to `length` readable bytes, which
    // `program` is for the whole call, as are the `len` steps it points to. The kernel checks and copies them and keeps no pointer.
    let result = unsafe {
        libc::setsockopt(
            socket.as_fd().as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast::<c_void>(),
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

/// Makes the kernel kill a program when the thread that starts it ends, also if this process is killed.
///
/// So the thread must wait for the program. The kernel clears this if the program's file has capabilities, and it does not apply
/// to what the program starts.
pub(crate) fn kill_with_parent(command: &mut Command) {
    let parent = getpid();
    let before_exec = move || {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // The parent may have ended before the signal was set.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec only calls that are safe in a signal handler are allowed: both are plain system calls, and
    // neither they nor the error, which is a number, allocate or take a lock.
    unsafe { command.pre_exec(before_exec) };
}

/// Passes descriptors to a program as its numbers 3, 4 and so on, as systemd does. For tests that take its place.
pub fn pass_descriptors(command: &mut Command, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    const FIRST: RawFd = 3;
    // Out of the way of the numbers that they get: none must be overwritten before it is copied.
    let free = FIRST.saturating_add(RawFd::try_from(descriptors.len()).unwrap_or(RawFd::MAX));
    let copy = |descriptor: &BorrowedFd<'_>| rustix::io::fcntl_dupfd_cloexec(descriptor, free);
    let copies = descriptors.iter().map(copy).collect::<Result<Vec<OwnedFd>, _>>()?;
    let before_exec = move || {
        for (copy, number) in copies.iter().zip(FIRST..) {
            // SAFETY: the numbers belong to no one in the new process but the standard library's report of a failed exec, which
            // is lost then; the program that is started has exactly these.
            if unsafe { libc::dup2(copy.as_raw_fd(), number) } < 0 {
                return Err(io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: between fork and exec only calls that are safe in a signal handler are allowed: `dup2` is one, and nothing
    // allocates or takes a lock.
    unsafe { command.pre_exec(before_exec) };
    Ok(())
}

/// Keeps malloc from having an arena for every thread: ours are few and allocate little, and with one arena a thread can reuse
/// what another freed. To be called before threads are started; does nothing with C libraries other than glibc.
pub fn limit_malloc_arenas() {
    #[cfg(target_env = "gnu")]
    // SAFETY: mallopt only sets a limit of the allocator, under its own lock.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
    }
}

/// Returns freed memory to the system. After a large list was processed much of the heap is free, and the allocator would keep
/// it.
pub fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim only releases pages that the allocator itself knows to be free, under its own lock.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Gives back the pages of code that are mapped so far. Much of it is only needed for the start; what is needed again is mapped again from
/// the page cache when it runs. Returns how many bytes of mappings that were.
pub fn release_code() -> io::Result<usize> {
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    let mut released = 0;
    for range in maps.lines().filter_map(code_range) {
        let length = range.len();
        // SAFETY: the range is a whole mapping of a file that can be executed and not written, so no page of it differs from the file,
        // from which the kernel maps it again at the next access. Code stays mapped: no library is unloaded.
        let result = unsafe {
            libc::madvise(std::ptr::with_exposed_provenance_mut(range.start), length, libc::MADV_DONTNEED)
        };
        released += if result == 0 { length } else { 0 };
    }
    Ok(released)
}

/// The addresses of a line of `/proc/PID/maps`, if it is code of a file.
fn code_range(line: &str) -> Option<Range<usize>> {
    let mut words = line.split_ascii_whitespace();
    let (addresses, rights) = (words.next()?, words.next()?);
    let is_file = words.nth(3)?.starts_with('/');
    let (start, end) = addresses.split_once('-')?;
    let address = |text| usize::from_str_radix(text, 16).ok();
    (is_file && rights == "r-xp").then_some(address(start)?..address(end)?)
}

/// Keeps a statically linked C library from loading plugins (NSS) to resolve host names: names are those of `/etc/hosts` and of DNS, as
/// for kube-proxy. To be called before names are resolved. Does nothing in a program that is linked dynamically, where the plugins that
/// `/etc/nsswitch.conf` names are built for the library it uses; in a static one they may be of any other version of it, and crash.
pub fn resolve_names_without_plugins() {
    #[cfg(all(target_env = "gnu", target_feature = "crt-static"))]
    {
        unsafe extern "C" {
            fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
        }
        // SAFETY: both are strings that end with a zero byte and live for ever; the library parses them under its own lock. It fails
        // only on a line that it cannot parse, and this one is its own default.
        unsafe { __nss_configure_lookup(c"hosts".as_ptr(), c"files dns".as_ptr()) };
    }
}

/// The system's allocator, which reports to the heap profile if that is enabled. Otherwise it costs one load.
#[derive(Debug)]
pub struct ProfiledAllocator;

// SAFETY: every call is passed to the system's allocator with its arguments, and the result is returned unchanged, so what
// `System` guarantees holds. The profile gets addresses as integers; it does not touch the memory, allocate or unwind.
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
        // First: another thread could be given the same address in between.
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

/// Sends the process a signal for every interval of CPU time it uses, and passes the stack of the interrupted thread to the CPU
/// profile. A duration of zero stops that.
///
/// The handler stays installed: a pending signal would otherwise kill the process.
pub(crate) fn interrupt_every(processor_time: Duration) -> io::Result<()> {
    handle_profiling_signals()?;
    let microseconds = libc::suseconds_t::from(processor_time.subsec_micros().cast_signed());
    let time = libc::timeval { tv_sec: 0, tv_usec: microseconds };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: setitimer reads the timer, which lives for the whole call, and accepts a null pointer for the old one.
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

/// The state of a stack walk, passed to the unwinder's callback.
struct Walk<'a> {
    addresses: &'a mut [usize],
    found: usize,
    to_skip: usize,
    /// The walk ends after the first caller whose code is in this range.
    limit: Range<usize>,
}

unsafe extern "C" {
    fn _Unwind_Backtrace(step: extern "C" fn(*mut c_void, *mut c_void) -> c_int, walk: *mut c_void) -> c_int;
    fn _Unwind_GetIPInfo(context: *mut c_void, is_before: *mut c_int) -> usize;
}

/// Records the call stack, innermost first, and returns its length. Each address is inside the calling or interrupted
/// instruction. Skips the first `skipped` callers, of which this function is one, and ends after a caller whose code is in
/// `limit`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_is_what_comes_from_a_file_and_cannot_be_written() {
        let line = |rights, file| {
            format!("55d0a000-55d0c000 {rights} 00001000 fe:00 1234                       {file}")
        };
        assert_eq!(code_range(&line("r-xp", "/usr/bin/ferrule")), Some(0x55d0_a000..0x55d0_c000));
        for (rights, file) in
            [("rwxp", "/usr/bin/x"), ("r--p", "/usr/bin/x"), ("r-xp", "[vdso]"), ("r-xp", "")]
        {
            assert_eq!(code_range(&line(rights, file)), None, "{rights} {file}");
        }
    }

    #[test]
    fn a_program_goes_on_after_its_code_was_released() {
        assert!(release_code().expect("its mappings") > 100_000);
        assert!(release_code().is_ok());
    }
}
