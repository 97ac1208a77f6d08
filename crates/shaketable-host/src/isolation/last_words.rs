//! The last words of a process that crashes, exits, panics or is stopped: on which client that
//! happened, and where in the code.
//!
//! A handler runs wherever the process was interrupted, so it only looks and writes: the client and
//! the addresses on the stack go to the [`Beacon`]. Then the signal takes its course. The parent,
//! which has loaded the same code at the same place, finds names and lines for the addresses
//! ([`stack`]).

use super::beacon::{Beacon, FRAMES_MAX, PANICKED};
use super::mapped;
use nix::sys::signal::Signal;
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::ops::Range;
use std::panic::PanicHookInfo;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Installs the handlers. `probe` finds out which client's code runs; it may only look.
pub(super) fn install(probe: fn() -> Option<u32>) -> io::Result<()> {
    use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, sigaction};
    PROBE.store(probe as *mut (), Ordering::Release);
    let here = 0_u8;
    STACK_TOP.store((&raw const here).addr(), Ordering::Release);
    // The first call loads a library, which a handler must not.
    note_frames(&mut [std::ptr::null_mut(); 1]);
    // A stack of its own, because the reason may be that the other one is used up.
    let stack: &'static mut [u8] = vec![0; STACK_BYTES].leak();
    let stack = libc::stack_t {
        ss_sp: stack.as_mut_ptr().cast(),
        ss_flags: 0,
        ss_size: stack.len(),
    };
    // SAFETY: the memory is leaked, hence always valid and used for nothing else.
    if unsafe { libc::sigaltstack(&raw const stack, std::ptr::null_mut()) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let action = SigAction::new(
        SigHandler::SigAction(on_signal),
        SaFlags::SA_ONSTACK | SaFlags::SA_RESETHAND,
        SigSet::empty(),
    );
    for signal in [
        Signal::SIGSEGV,
        Signal::SIGBUS,
        Signal::SIGILL,
        Signal::SIGFPE,
        Signal::SIGABRT,
        Signal::SIGTERM,
    ] {
        // SAFETY: the handler looks, writes, and raises the signal again, which is allowed in one.
        unsafe { sigaction(signal, &action) }?;
    }
    let asked = SigAction::new(
        SigHandler::Handler(on_ask),
        SaFlags::empty(),
        SigSet::empty(),
    );
    // SAFETY: the handler only stores a flag.
    unsafe { sigaction(ASK_TO_END, &asked) }?;
    // SAFETY: the function only stores a number.
    unsafe { libc::atexit(on_exit) };
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        if ENDS_ON_PANIC.load(Ordering::Relaxed) {
            on_panic(panic);
        }
    }));
    Ok(())
}

static ENDS_ON_PANIC: AtomicBool = AtomicBool::new(false);

/// From now on a panic of the simulator ends this process, with words for its parent. Workloads
/// bring a standard library of their own, so their panics never come here.
pub(super) fn end_on_panic() {
    ENDS_ON_PANIC.store(true, Ordering::Relaxed);
}

fn on_panic(panic: &PanicHookInfo<'_>) -> ! {
    // Most panics of the simulator are on no client, whichever it called last.
    Beacon::current().set_client(client());
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let text = text.unwrap_or("a panic without a message");
    let words = match panic.location() {
        Some(place) => format!("{place}: {text}"),
        None => text.to_owned(),
    };
    Beacon::current().leave_message(&words);
    note_frames(&mut [std::ptr::null_mut(); FRAMES_MAX]);
    // SAFETY: ends the process at once: nothing of a broken simulation is worth unwinding.
    unsafe { libc::_exit(PANICKED) }
}

/// The signal that asks a simulation to end by itself, and to report what each client waits for.
pub(super) const ASK_TO_END: Signal = Signal::SIGUSR1;

static ASKED_TO_END: AtomicBool = AtomicBool::new(false);

extern "C" fn on_ask(_: c_int) {
    ASKED_TO_END.store(true, Ordering::Relaxed);
}

/// Whether this process was asked to end.
pub(crate) fn is_asked_to_end() -> bool {
    ASKED_TO_END.load(Ordering::Relaxed)
}

/// Forgets that it was: that concerned an earlier run.
pub(super) fn forget_being_asked() {
    ASKED_TO_END.store(false, Ordering::Relaxed);
}

static PROBE: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());
static STACK_TOP: AtomicUsize = AtomicUsize::new(0);
/// The stack of the handlers.
const STACK_BYTES: usize = 128 * 1024;
/// The room of the stack that the operating system gives a program, and around its end what counts
/// as running over it.
const MAIN_STACK_BYTES: usize = 8 << 20;
const NEAR_BYTES: usize = 1 << 20;

/// The client whose code runs, if one's does.
fn client() -> Option<u32> {
    let probe = PROBE.load(Ordering::Acquire);
    if probe.is_null() {
        return None;
    }
    // SAFETY: not null, hence the function that `install` stored.
    let probe: fn() -> Option<u32> = unsafe { std::mem::transmute(probe) };
    probe()
}

fn say_client() {
    if let Some(client) = client() {
        Beacon::current().set_client(Some(client));
    }
}

extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    say_client();
    if signal == libc::SIGSEGV && !info.is_null() {
        // SAFETY: not null, hence the operating system's description of the fault; a fault has an
        // address.
        let address = unsafe { (*info).si_addr() }.addr();
        let end = STACK_TOP
            .load(Ordering::Acquire)
            .wrapping_sub(MAIN_STACK_BYTES);
        if address.abs_diff(end) < NEAR_BYTES {
            Beacon::current().leave_message("the stack is used up: endless recursion?");
        }
    }
    note_frames(&mut [std::ptr::null_mut(); FRAMES_MAX]);
    // SAFETY: the handler was reset when it was entered: this ends the process as the signal would
    // have.
    unsafe { libc::raise(signal) };
}

/// The name of a signal.
pub(super) fn signal_name(number: i32) -> &'static str {
    Signal::try_from(number).map_or("a signal", Signal::as_str)
}

extern "C" fn on_exit() {
    say_client();
}

/// Records the addresses on the stack.
fn note_frames(frames: &mut [*mut c_void]) {
    // SAFETY: the buffer has the given length.
    let count = unsafe { libc::backtrace(frames.as_mut_ptr(), frames.len() as c_int) };
    Beacon::current().leave_frames(&frames[..count as usize]);
}

/// Where the code under test was when the process ended, innermost first: what is the host's own is
/// left out, and so is the way from the signal to its handler. Empty if that is not known.
pub(super) fn stack() -> Vec<String> {
    let frames = Beacon::current().frames();
    let modules: Vec<String> = frames.iter().map(|address| module(*address)).collect();
    let Some(own) = modules.first() else {
        return Vec::new();
    };
    let is_under_test = |module: &String| module != own && !is_c_library(module);
    let Some(first) = modules.iter().position(is_under_test) else {
        return Vec::new();
    };
    frames[first..]
        .iter()
        .zip(&modules[first..])
        .filter(|(_, module)| is_under_test(module))
        .take(STACK_LINES_MAX)
        .map(|(address, module)| describe(*address, module))
        .collect()
}

/// More than this helps no reader.
const STACK_LINES_MAX: usize = 12;

/// Whether an address is one of this program's own code, and of none of its libraries.
pub(super) fn is_in_program(address: usize) -> bool {
    /// Where the program lies. The loader searches its symbols for every address it is asked
    /// about, which takes longer than to walk up a stack.
    static PROGRAM: OnceLock<Range<usize>> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| file_with(own_address()));
    program.contains(&address)
}

/// Whether an address is one of the C library's.
pub(super) fn is_in_c_library(address: usize) -> bool {
    static LIBRARY: OnceLock<Range<usize>> = OnceLock::new();
    let library = LIBRARY.get_or_init(|| {
        let library = file_with((libc::abort as unsafe extern "C" fn() -> !) as usize);
        // It may be part of the program.
        match library.contains(&own_address()) {
            true => 0..0,
            false => library,
        }
    });
    library.contains(&address)
}

/// An address in this program.
fn own_address() -> usize {
    (is_in_program as fn(usize) -> bool) as usize
}

/// The addresses of the file that contains one.
fn file_with(address: usize) -> Range<usize> {
    /// The address to look for, and the range it is in.
    struct Search(usize, Range<usize>);
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
        // SAFETY: `file_with` passes a search that nothing else uses meanwhile, and the loader a
        // file that stays loaded during the call.
        let (search, info) = unsafe { (&mut *to.cast::<Search>(), &*info) };
        // SAFETY: it is what the loader has passed.
        let ranges = unsafe { mapped::parts(info) }.map(|(range, _)| range);
        let all = ranges.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end));
        match all.filter(|all| all.contains(&search.0)) {
            Some(all) => {
                search.1 = all;
                1
            }
            None => 0,
        }
    }
    let mut search = Search(address, 0..0);
    // SAFETY: the function does as it promises with what it is passed, and the search outlives the
    // call.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut search).cast()) };
    search.1
}

/// What the loader knows about the file that an address belongs to.
fn file_of(address: usize) -> Option<libc::Dl_info> {
    let mut info = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let address = std::ptr::without_provenance(address);
    // SAFETY: the function looks an address up and does not follow it; it fills what it is given,
    // or returns that it did not.
    let (found, info) = unsafe { (libc::dladdr(address, info.as_mut_ptr()), info.assume_init()) };
    (found != 0).then_some(info)
}

/// The file that an address belongs to, without its folder.
fn module(address: usize) -> String {
    let Some(info) = file_of(address).filter(|info| !info.dli_fname.is_null()) else {
        return String::new();
    };
    // SAFETY: not null, hence the loader's own NUL-terminated name.
    let path = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy();
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

fn is_c_library(module: &str) -> bool {
    module.is_empty() || module.starts_with("libc.so") || module.starts_with("libc-")
}

/// An address as name and place, as far as they are known.
fn describe(address: usize, module: &str) -> String {
    let mut text = String::new();
    // A return address lies behind the call; one before it is inside, for the faulting instruction
    // as well.
    let inside = std::ptr::without_provenance_mut::<c_void>(address - 1);
    backtrace::resolve(inside, |symbol| {
        if !text.is_empty() {
            return;
        }
        if let Some(name) = symbol.name() {
            text = format!("{name:#}");
            if let (Some(file), Some(line)) = (symbol.filename(), symbol.lineno()) {
                text.push_str(&format!(" at {}:{line}", file.display()));
            } else {
                text.push_str(&format!(" in {module}"));
            }
        }
    });
    if text.is_empty() {
        text = format!("an address in {module}");
    }
    text
}
