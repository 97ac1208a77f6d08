//! What a thread prints, held back.
//!
//! A test program runs hundreds of seeds, several at once, and only what a failing one prints is of
//! interest. The test runner's own capture cannot tell seeds apart, so a seed runs on a thread that
//! has none ([`uncaptured`]), and while [`hold`] has a guard there, what it writes to the standard
//! output and the standard error goes to a [`SharedTail`] instead. That is shown if the seed ends
//! the process; a seed that fails in any other way is run once more, with the runner's capture.
//!
//! A thread that the code under test starts holds its output back, too, for as long as it lives. It
//! may outlive the seed, so the tail has none of it. What has no end of line waits in a buffer that
//! Rust's standard output has for the whole process, so half a line may get into the wrong hands.

use super::symbols::Start;
use crate::shared_text::SharedTail;
use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::io::Write;
use std::mem::MaybeUninit;
use std::ptr;

/// How many of the last bytes are kept.
pub(crate) const KEPT_BYTES: usize = 4096;

/// What becomes of the output of a thread.
#[derive(Clone, Copy)]
pub(super) enum Held {
    /// It is written.
    No,
    /// Its end is kept.
    Kept(&'static SharedTail<KEPT_BYTES>),
    /// It is not kept.
    Dropped,
}

impl Held {
    /// Takes what would have been written.
    pub(super) fn take(self, bytes: &[u8]) {
        match self {
            Held::No | Held::Dropped => {}
            Held::Kept(tail) => tail.append(bytes),
        }
    }
}

thread_local! {
    static HELD: Cell<Held> = const { Cell::new(Held::No) };
}

/// What becomes of this thread's output to a file.
pub(super) fn of(file: c_int) -> Held {
    match file {
        libc::STDOUT_FILENO | libc::STDERR_FILENO => HELD.get(),
        _ => Held::No,
    }
}

/// While this lives, the output of the thread is held back.
pub(crate) struct Guard(());

/// Holds the output of the calling thread back, and keeps the end of it.
pub(crate) fn hold(tail: &'static SharedTail<KEPT_BYTES>) -> Guard {
    tail.clear();
    HELD.set(Held::Kept(tail));
    Guard(())
}

impl Drop for Guard {
    fn drop(&mut self) {
        // A line without its end waits where every thread's output passes.
        let _ = std::io::stdout().flush();
        HELD.set(Held::No);
    }
}

/// Holds the output of the calling thread back no longer: the process is about to end, and whatever
/// else is said about that shall be seen. May be called in a handler.
pub(crate) fn release() {
    HELD.set(Held::No);
}

/// What a thread begins with.
struct Beginning {
    start: Start,
    argument: *mut c_void,
}

/// What a new thread has to begin with so that its output is held back if this thread's is.
pub(super) fn inherited(start: Start, argument: *mut c_void) -> (Start, *mut c_void) {
    extern "C" fn begin(beginning: *mut c_void) -> *mut c_void {
        // SAFETY: made below, for this call alone.
        let beginning = unsafe { Box::from_raw(beginning.cast::<Beginning>()) };
        HELD.set(Held::Dropped);
        (beginning.start)(beginning.argument)
    }
    match HELD.get() {
        Held::No => (start, argument),
        Held::Kept(_) | Held::Dropped => {
            let beginning = Box::new(Beginning { start, argument });
            (begin, Box::into_raw(beginning).cast())
        }
    }
}

/// Does work on a thread whose output no test runner captures, and waits for it. Threads that are
/// started there have none either.
pub(crate) fn uncaptured<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    struct Task<F, T> {
        work: Option<F>,
        result: Option<std::thread::Result<T>>,
    }
    extern "C" fn begin<F: FnOnce() -> T, T>(task: *mut c_void) -> *mut c_void {
        // SAFETY: the thread that started this one waits, and leaves the task alone meanwhile.
        let task = unsafe { &mut *task.cast::<Task<F, T>>() };
        let work = task.work.take().expect("begun once");
        let work = std::panic::AssertUnwindSafe(work);
        task.result = Some(std::panic::catch_unwind(work));
        ptr::null_mut()
    }
    fn begin_of<F: FnOnce() -> T, T>(_: &Task<F, T>) -> Start {
        begin::<F, T>
    }
    let mut task = Task {
        work: Some(work),
        result: None,
    };
    let start = begin_of(&task);
    let mut thread = MaybeUninit::uninit();
    // SAFETY: the task lives until the thread has ended, and only what can be sent goes there.
    unsafe {
        let argument = (&raw mut task).cast();
        let error = libc::pthread_create(thread.as_mut_ptr(), ptr::null(), start, argument);
        assert_eq!(error, 0, "a thread can be started");
        libc::pthread_join(thread.assume_init(), ptr::null_mut());
    }
    match task.result.expect("the thread has ended") {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
