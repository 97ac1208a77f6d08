//! What becomes of the library in a fork of its program.
//!
//! Threads do not survive a fork. A child of a process whose network was set up has all handles and
//! no thread that works for them: with FoundationDB's own library its first call waits until it is
//! killed. Here every call of such a child fails at once with 1500, and the first one says why. A
//! child whose parent had not set the network up is a program like any other.

use shaketable_cluster::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a call of a forked child ends with.
pub(crate) const FORKED: Error = Error::PLATFORM_ERROR;

static IS_FORK: AtomicBool = AtomicBool::new(false);
static SAID: AtomicBool = AtomicBool::new(false);

/// From now on a fork of this process knows that it is one.
pub(crate) fn watch() {
    // SAFETY: the handler does nothing but store to an atomic, which is allowed after a fork.
    unsafe { nix::libc::pthread_atfork(None, None, Some(mark)) };
}

extern "C" fn mark() {
    IS_FORK.store(true, Ordering::Relaxed);
}

/// Whether this process is a fork of one whose network was set up. Then nothing may be waited for,
/// not even a lock: a thread that is not here may have held it. Says so, once.
#[inline]
pub(crate) fn is_fork() -> bool {
    IS_FORK.load(Ordering::Relaxed) && {
        say();
        true
    }
}

#[cold]
fn say() {
    if !SAID.swap(true, Ordering::Relaxed) {
        eprintln!(
            "shaketable: this process is a fork of one that had set up the FoundationDB network, \
             and threads do not survive a fork; set the network up in the child alone, or start \
             children afresh (Python: multiprocessing.set_start_method(\"spawn\"))"
        );
    }
}
