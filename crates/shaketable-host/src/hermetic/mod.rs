//! Time and randomness for code that asks the operating system instead of the context.
//!
//! Somewhere in a workload's dependencies is a `HashMap`, an `Instant::now()`, a `Uuid::new_v4()`.
//! In fdbserver each of them makes a seed irreproducible. Here they get their values from the seed
//! and the simulated clock: a program that calls
//! [`export_hermetic_symbols!`](crate::export_hermetic_symbols) defines the functions of the C
//! library that all of these end in ([`symbols`]), and the loader binds every library's calls to
//! them. While no simulation runs on the calling thread they do what the C library does.
//!
//! What cannot be made reproducible is allowed and remembered: a thread, a socket, a file, another
//! program. A `sleep` would stop the only thread there is; it returns at once and is remembered
//! too. What does not go through a function of the C library cannot be noticed: a random number
//! made by the processor, addresses in memory, a system call made by hand.

pub(crate) mod output;
pub mod symbols;

use crate::shared_text::SharedText;
use std::cell::Cell;
use std::ffi::{CStr, c_int, c_long};
use std::sync::atomic::{AtomicU32, Ordering};

/// The seed while a library is loaded: its constructors run before there is a run.
pub(crate) const LOADING_SEED: u64 = 0;

thread_local! {
    /// Whether a simulation runs on this thread. All three are plain words without destructors,
    /// because a thread may ask for the time at any moment of its life.
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
    static NOW_NANOS: Cell<u64> = const { Cell::new(0) };
    static RANDOM: Cell<u64> = const { Cell::new(0) };
}

/// While this lives, the calling thread gets time and randomness from a seed.
pub struct Guard {
    outer: (bool, u64, u64),
}

impl Guard {
    /// Makes the calling thread hermetic.
    pub fn enter(seed: u64) -> Guard {
        let outer = (
            ACTIVE.replace(true),
            NOW_NANOS.replace(0),
            RANDOM.replace(seed ^ 0x5348_414b_4554_4142),
        );
        Guard { outer }
    }

    /// Lets the host itself use the operating system.
    pub(crate) fn pause<T>(&self, work: impl FnOnce() -> T) -> T {
        ACTIVE.set(false);
        let result = work();
        ACTIVE.set(true);
        result
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let (active, now, random) = self.outer;
        ACTIVE.set(active);
        NOW_NANOS.set(now);
        RANDOM.set(random);
    }
}

/// Lets the host itself use the operating system, wherever it is called from.
pub(crate) fn outside<T>(work: impl FnOnce() -> T) -> T {
    let active = ACTIVE.replace(false);
    let result = work();
    ACTIVE.set(active);
    result
}

/// Sets the simulated time, in nanoseconds since the start of the run.
pub fn set_now(nanos: u64) {
    NOW_NANOS.set(nanos);
}

/// What the code under test did that no seed controls, since the last call.
pub fn take_uncontrolled() -> Vec<String> {
    [&THREADS, &SOCKETS, &FILES, &PROGRAMS, &SLEEPS]
        .into_iter()
        .filter_map(UncontrolledAct::take)
        .collect()
}

/// Something that no seed controls.
struct UncontrolledAct {
    act: &'static str,
    count: AtomicU32,
    /// What was done first, if it has a name.
    first: SharedText<NAME_BYTES>,
}

/// A longer path is cut.
const NAME_BYTES: usize = 200;

static THREADS: UncontrolledAct = UncontrolledAct::new("started a thread");
static SOCKETS: UncontrolledAct = UncontrolledAct::new("opened a socket");
static FILES: UncontrolledAct = UncontrolledAct::new("opened a file");
static PROGRAMS: UncontrolledAct = UncontrolledAct::new("started a program");
static SLEEPS: UncontrolledAct = UncontrolledAct::new("slept in real time, which returned at once");

impl UncontrolledAct {
    const fn new(act: &'static str) -> UncontrolledAct {
        UncontrolledAct {
            act,
            count: AtomicU32::new(0),
            first: SharedText::empty(),
        }
    }

    /// Remembers that it was done, if a simulation runs on this thread.
    fn note(&self, name: Option<&CStr>) {
        if !ACTIVE.get() {
            return;
        }
        if let (0, Some(name)) = (self.count.fetch_add(1, Ordering::Relaxed), name) {
            let name = name.to_bytes();
            self.first.append(&name[..name.len().min(NAME_BYTES)]);
        }
    }

    fn take(&self) -> Option<String> {
        let count = self.count.swap(0, Ordering::Relaxed);
        let first = String::from_utf8_lossy(&self.first.read()).into_owned();
        self.first.clear();
        let act = match first.as_str() {
            "" => self.act.to_owned(),
            name => format!("{}: {name}", self.act),
        };
        match count {
            0 => None,
            1 => Some(act),
            count => Some(format!("{act} ({count} times)")),
        }
    }
}

/// The path of this program.
static PROGRAM: SharedText<PATH_BYTES> = SharedText::empty();
const PATH_BYTES: usize = 4096;

/// Finds the path of this program, before anything is simulated.
pub(crate) fn know_program() {
    if PROGRAM.read().is_empty()
        && let Ok(path) = std::env::current_exe()
    {
        PROGRAM.append(path.as_os_str().as_encoded_bytes());
    }
}

/// Whether a file belongs to the machinery that shows a backtrace, and is opened when code panics:
/// the program, its libraries, their sources, and the operating system's files about the process.
fn is_for_backtraces(path: &[u8]) -> bool {
    let contains = |part: &[u8]| path.windows(part.len()).any(|window| window == part);
    path == PROGRAM.read()
        || path.starts_with(b"/proc/self/")
        || path.starts_with(b"/usr/lib/debug/")
        || path.ends_with(b".so")
        || contains(b".so.")
        || path.ends_with(b".dwp")
        || path.ends_with(b".debug")
}

/// The next eight bytes of the thread's random stream (splitmix64).
fn next_random() -> u64 {
    let state = RANDOM.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    RANDOM.set(state);
    let mut z = state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Seconds and nanoseconds on a clock.
fn simulated(clock: c_int) -> (i64, c_long) {
    let now = NOW_NANOS.get();
    let calendar = matches!(
        clock,
        libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE | libc::CLOCK_TAI
    );
    let epoch = if calendar {
        crate::clock::EPOCH_UNIX_SECONDS
    } else {
        0
    };
    // A monotonic clock that reads zero invites underflow in code that subtracts.
    let offset = if calendar { 0 } else { 1_000 };
    (
        (epoch + offset + now / 1_000_000_000) as i64,
        (now % 1_000_000_000) as c_long,
    )
}

#[cfg(test)]
mod tests {
    use super::symbols::{clock_gettime, getrandom};
    use super::*;

    fn draw() -> [u8; 13] {
        let mut bytes = [0; 13];
        // SAFETY: a local of that length.
        let count = unsafe { getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        assert_eq!(count, 13);
        bytes
    }

    fn read(clock: c_int) -> (i64, i64) {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: a local.
        unsafe { clock_gettime(clock, &raw mut now) };
        (now.tv_sec, now.tv_nsec)
    }

    #[test]
    fn inside_a_simulation_chance_comes_from_the_seed() {
        let first = {
            let _guard = Guard::enter(7);
            (draw(), draw())
        };
        let again = {
            let _guard = Guard::enter(7);
            (draw(), draw())
        };
        let other = {
            let _guard = Guard::enter(8);
            (draw(), draw())
        };
        assert_eq!(first, again);
        assert_ne!(first, other);
        assert_ne!(first.0, first.1);
    }

    #[test]
    fn inside_a_simulation_time_is_simulated() {
        let _guard = Guard::enter(7);
        set_now(2_500_000_000);
        assert_eq!(read(libc::CLOCK_REALTIME), (1_767_225_602, 500_000_000));
        let before = read(libc::CLOCK_MONOTONIC);
        set_now(3_500_000_001);
        let after = read(libc::CLOCK_MONOTONIC);
        assert_eq!((after.0 - before.0, after.1 - before.1), (1, 1));
    }

    #[test]
    fn outside_a_simulation_the_machine_answers() {
        assert_ne!(draw(), draw());
        assert!(read(libc::CLOCK_REALTIME).0 > 1_767_225_600);
    }

    #[test]
    fn what_no_seed_controls_is_told_by_its_first_name() {
        let _guard = Guard::enter(7);
        FILES.note(Some(c"a.txt"));
        FILES.note(Some(c"b.txt"));
        assert_eq!(FILES.take().unwrap(), "opened a file: a.txt (2 times)");
        FILES.note(None);
        assert_eq!(FILES.take().unwrap(), "opened a file");
        assert_eq!(FILES.take(), None);
    }
}
