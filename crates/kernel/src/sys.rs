//! The one funnel of unsafe calls, and nothing else.
//!
//! Everything here is a thin, safe function over one system call that `rustix` does not offer safely.
//! Sockets proper are in [`crate::netlink`].

#![allow(unsafe_code, reason = "the one file for it; each call says why its conditions hold")]

use std::ffi::{c_int, c_void};
use std::io;
use std::os::fd::{AsFd, AsRawFd};

use rustix::thread::UnshareFlags;

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
