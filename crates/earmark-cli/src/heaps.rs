//! The heaps of the process: the only unsafe code of the command.
#![allow(unsafe_code)]

/// Has all threads share two heaps. The allocator of Linux would give each its own, each of which stays as large as its
/// thread ever needed: under load that is three times the memory.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(crate) fn share() {
    // SAFETY: takes two numbers and no memory, and no other thread is there yet.
    unsafe { libc::mallopt(libc::M_ARENA_MAX, 2) };
}

/// Other allocators share by themselves.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(crate) fn share() {}
