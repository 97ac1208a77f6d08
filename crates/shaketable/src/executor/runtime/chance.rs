//! The seed of tokio's own choices, such as the branch that `select!` looks at first, in a process
//! that runs many simulations.
//!
//! Tokio hashes a counter with the keys of a `RandomState`. The keys are the seed's: they are drawn
//! once for a thread, and each simulation has a thread of its own. The counter is the process's: it
//! says how many runtimes were made before. A seed that fails after a hundred others would see
//! another order when it runs alone.
//!
//! Tokio's stable API has no way to set either, so the counter is set to the same value whenever a
//! phase gets its runtime. It is found by its name in the symbols of the program, once a process. A
//! program without symbols goes without; so does one whose tokio calls it by another name, which a
//! test would notice. A build with `--cfg tokio_unstable` has a better way, and needs none of this.

use object::{Object, ObjectSymbol, ReadCache};
use std::fs::File;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

/// `tokio::loom::std::rand::COUNTER`, as both ways to mangle a name spell it.
const NAME: &str = "5tokio4loom3std4rand7COUNTER";
/// What the counter says whenever a phase gets its runtime.
const FIRST: u32 = 1;

static COUNTER: OnceLock<Option<&'static AtomicU32>> = OnceLock::new();

/// Looks for the counter; to be called outside a simulation, where files can be read.
pub(crate) fn find() {
    COUNTER.get_or_init(|| {
        let program = ReadCache::new(File::open("/proc/self/exe").ok()?);
        let program = object::File::parse(&program).ok()?;
        let mut symbols = program.symbols();
        let counter = symbols.find(|symbol| {
            symbol.size() == size_of::<u32>() as u64
                && symbol.name().is_ok_and(|name| name.contains(NAME))
        })?;
        let address = base()?.checked_add(usize::try_from(counter.address()).ok()?)?;
        let counter = std::ptr::with_exposed_provenance_mut(address);
        // SAFETY: the symbol of this program is tokio's static of this type, which lives as long as
        // the process, and is only ever used as an atomic.
        Some(unsafe { AtomicU32::from_ptr(counter) })
    });
}

/// Makes what tokio draws a seed for. Another thread that makes a runtime of its own, outside any
/// simulation, in the same few nanoseconds can still get in between.
pub(super) fn seeded<T>(make: impl FnOnce() -> T) -> T {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let Some(counter) = COUNTER.get().copied().flatten() else {
        return make();
    };
    let _guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let before = counter.swap(FIRST, Ordering::Relaxed);
    let made = make();
    counter.store(before.wrapping_add(1), Ordering::Relaxed);
    made
}

/// How far from its addresses in the file the program is loaded.
fn base() -> Option<usize> {
    unsafe extern "C" fn first(
        program: *mut libc::dl_phdr_info,
        _size: usize,
        base: *mut std::ffi::c_void,
    ) -> std::ffi::c_int {
        // SAFETY: both are valid, by the promises of the function that calls this and of the call
        // below. The first is the program itself.
        unsafe { *base.cast::<Option<usize>>() = usize::try_from((*program).dlpi_addr).ok() };
        1
    }
    let mut base = None;
    // SAFETY: `first` has the type that it needs, and `base` outlives the call.
    unsafe { libc::dl_iterate_phdr(Some(first), (&raw mut base).cast()) };
    base
}
