//! Threads that work beside the caller for a moment.
//!
//! They are the library's own. Those of a pool that the application uses as well may all wait for a lock whose holder
//! waits for that pool. A caller that is a thread of some pool stays in it, and must hold no lock meanwhile: while it
//! waits it takes up other work of that pool.

use std::{process, sync::OnceLock};

use rayon::{Scope, ThreadPool, ThreadPoolBuilder};

/// Whether this is a thread of a pool.
pub(crate) fn is_pooled() -> bool {
    rayon::current_thread_index().is_some()
}

/// Runs `work`, whose parallel iterators then use these threads.
pub(crate) fn shared<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    match own() {
        Some(pool) => pool.install(work),
        None => work(),
    }
}

/// Runs the second on another thread beside the first.
pub(crate) fn at_once<A, B: Send>(first: impl FnOnce() -> A, second: impl FnOnce() -> B + Send) -> (A, B) {
    let mut other = None;
    let one = in_scope(|scope| {
        scope.spawn(|_| other = Some(second()));
        first()
    });
    (one, other.unwrap_or_else(|| unreachable!("the scope waits for it")))
}

/// Runs `work` on this thread, and what it gives to the scope on others.
fn in_scope<'s, T>(work: impl FnOnce(&Scope<'s>) -> T) -> T {
    match own() {
        Some(pool) => pool.in_place_scope(work),
        None => rayon::in_place_scope(work),
    }
}

/// `None` for a thread of a pool, where the system gives no more threads, and in a fork of the process, which has none
/// of its threads.
fn own() -> Option<&'static ThreadPool> {
    static POOL: OnceLock<(u32, Option<ThreadPool>)> = OnceLock::new();
    if is_pooled() {
        return None;
    }
    let (process, pool) = POOL.get_or_init(|| (process::id(), ThreadPoolBuilder::new().build().ok()));
    pool.as_ref().filter(|_| *process == process::id())
}
