//! Which frame of the code under test makes a call, found fast enough for every call of every seed.
//!
//! An unwinder reads tables to find out how large the frame at an address is, each time anew: tens
//! of microseconds for a stack, more than a simulated read takes. But at a given return address the
//! frame nearly always has the same size. So the unwinder is asked once for each address, and its
//! answers are kept: the distance from the stack pointer there to the stack pointer of the caller.
//! With these a walk is a look into a table and a load for each frame, up to the first frame that
//! belongs to the author.
//!
//! Where that does not hold, because the frame is of variable size, the walk reads something else
//! than a return address. That is noticed, because an address must be known; the unwinder is asked
//! again, and from then on each time it comes this way. And it does no harm: a walk reads nothing
//! but the stack that the operating system gave this thread, from the frame it began in to the end.
//! On another stack, such as one that code under test made for a coroutine, it is not known where
//! that ends, so there the unwinder is asked each time.
//!
//! Whose code an address is takes debug information to know, which is too slow for the process of a
//! seed that only counts ([`site`]). It returns the addresses of a stack that are new, together
//! with the sizes of their frames; its parent looks them up ([`learn`], [`tell_apart`]), and the
//! next fork knows them. In a program whose seeds have threads instead, the next thread does. A
//! process that records looks them up itself ([`author`]).

use crate::hermetic;
use crate::isolation;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How deep the author's frame is searched for.
const FRAMES_MAX: usize = 96;

/// A larger distance leads to another stack: that of a coroutine ends on that of its owner.
const FRAME_BYTES_MAX: usize = 1 << 18;

/// What is known about frames, and the places from which calls were made.
struct Walk {
    /// By address, at the index that its hash says or one of the next.
    frames: Vec<Frame>,
    known: usize,
    /// The distance from the frame of [`here`] to that of its caller.
    first_step: usize,
    /// The stack of this thread, once that was asked for.
    bounds: Option<Range<usize>>,
    /// The places, as the addresses that are not known to be foreign.
    sites: Vec<Box<[usize]>>,
    numbers: BTreeMap<Box<[usize]>, u32>,
    /// The frames that this thread has found.
    found: Vec<Found>,
    /// Whether it knows what other threads were told before.
    is_told: bool,
}

/// A return address.
#[derive(Clone, Copy)]
struct Frame {
    /// 0 where there is none.
    address: usize,
    step: usize,
    whose: Whose,
    /// The place with this address alone, if it has a number.
    site: Option<u32>,
}

impl Frame {
    const EMPTY: Frame = Frame {
        address: 0,
        step: NONE,
        whose: Whose::Unknown,
        site: None,
    };
}

/// A step that is not the same each time.
const VARIABLE: usize = usize::MAX;
/// The step from the outermost frame.
const NONE: usize = 0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    Unknown,
    Authors,
    Foreign,
}

/// A frame that was found: its address, and the distance to its caller.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Found(usize, usize);

thread_local! {
    static WALK: RefCell<Walk> = const { RefCell::new(Walk::new()) };
}

/// What the threads of this process have been told, for those that begin later.
static TOLD: Mutex<Told> = Mutex::new(Told {
    found: Vec::new(),
    whose: BTreeMap::new(),
});

struct Told {
    found: Vec<Found>,
    whose: BTreeMap<usize, bool>,
}

impl Told {
    fn all() -> MutexGuard<'static, Told> {
        // Whatever panicked, what was told is whole.
        TOLD.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of the place that calls into the program.
pub(crate) fn site() -> u32 {
    let found = here(None);
    found.map_or(0, |found| found as u32)
}

/// The address of the author's frame that calls into the program. `is_authors` is asked about each
/// address when it is met first.
pub(crate) fn author(is_authors: fn(usize) -> bool) -> Option<usize> {
    here(Some(is_authors))
}

/// Both, so that both begin with a frame of the same size.
#[inline(never)]
fn here(is_authors: Option<fn(usize) -> bool>) -> Option<usize> {
    let stack = stack_pointer();
    // Code under test may call while a thread ends; what is counted then is lost anyway.
    let found = WALK.try_with(|walk| {
        let mut walk = walk.borrow_mut();
        match is_authors {
            Some(is_authors) => walk.author(stack, is_authors),
            None => Some(walk.site(stack) as usize),
        }
    });
    found.ok().flatten()
}

/// Finds out where this thread's stack lies, so that its forks need not.
pub(crate) fn prepare() {
    WALK.with_borrow_mut(|walk| walk.be_ready());
}

/// The addresses of the places, by their numbers, and the frames that this process has found.
pub(crate) fn take_places() -> (Vec<Box<[usize]>>, Vec<Found>) {
    WALK.with_borrow_mut(|walk| {
        walk.numbers.clear();
        let sites = std::mem::take(&mut walk.sites);
        for site in &sites {
            if let [address] = **site
                && let Some(frame) = walk.frame(address)
            {
                frame.site = None;
            }
        }
        (sites, std::mem::take(&mut walk.found))
    })
}

/// The frames that this process has found.
pub(crate) fn take_found() -> Vec<Found> {
    WALK.with_borrow_mut(|walk| std::mem::take(&mut walk.found))
}

/// Takes over what a fork of this process has found.
pub(crate) fn learn(found: &[Found]) {
    WALK.with_borrow_mut(|walk| {
        walk.be_told();
        walk.learn(found);
        let told = Told::all();
        for Found(address, _) in found {
            if let Some(is_authors) = told.whose.get(address) {
                walk.tell_apart(*address, *is_authors);
            }
        }
    });
    Told::all().found.extend_from_slice(found);
}

/// Takes over whose code an address is.
pub(crate) fn tell_apart(address: usize, is_authors: bool) {
    WALK.with_borrow_mut(|walk| walk.tell_apart(address, is_authors));
    Told::all().whose.insert(address, is_authors);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn stack_pointer() -> usize {
    let pointer: usize;
    // SAFETY: reads a register and nothing else.
    unsafe {
        std::arch::asm!("mov {}, rsp", out(reg) pointer, options(nomem, nostack, preserves_flags));
    }
    pointer
}

/// Elsewhere the unwinder is asked each time.
#[cfg(not(target_arch = "x86_64"))]
fn stack_pointer() -> usize {
    0
}

/// The return address below a frame.
///
/// # Safety
/// `stack` is a multiple of eight, and the eight bytes below it are readable and on a stack.
unsafe fn return_address(stack: usize) -> usize {
    // SAFETY: the caller vouches for it.
    unsafe { std::ptr::with_exposed_provenance::<usize>(stack - 8).read() }
}

/// Where the stack of this thread lies that the operating system gave it; nowhere if that is not
/// known.
fn stack_of_thread() -> Range<usize> {
    let mut attributes = std::mem::MaybeUninit::<libc::pthread_attr_t>::uninit();
    let (mut low, mut bytes) = (std::ptr::null_mut(), 0);
    // SAFETY: the attributes are read and destroyed only if they were made.
    unsafe {
        if libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) != 0 {
            return 0..0;
        }
        let is_known = libc::pthread_attr_getstack(attributes.as_ptr(), &mut low, &mut bytes) == 0;
        libc::pthread_attr_destroy(attributes.as_mut_ptr());
        if !is_known {
            return 0..0;
        }
    }
    low.addr()..low.addr().saturating_add(bytes)
}

/// A place, while it is being found: the addresses that are not known to be foreign, up to the
/// author's.
struct Site {
    addresses: [usize; FRAMES_MAX],
    count: usize,
    /// Whether the last of them is known to be the author's.
    is_authors: bool,
    /// The number of the place, if it is one address that has one.
    known: Option<u32>,
}

impl Default for Site {
    fn default() -> Site {
        Site {
            addresses: [0; FRAMES_MAX],
            count: 0,
            is_authors: false,
            known: None,
        }
    }
}

impl Site {
    fn look(&mut self, frame: &mut Frame) -> bool {
        if frame.whose == Whose::Foreign {
            return false;
        }
        self.is_authors = frame.whose == Whose::Authors;
        if self.is_authors && self.count == 0 {
            self.known = frame.site;
        }
        self.addresses[self.count] = frame.address;
        self.count += 1;
        self.is_authors
    }
}

impl Walk {
    const fn new() -> Walk {
        Walk {
            frames: Vec::new(),
            known: 0,
            first_step: NONE,
            bounds: None,
            sites: Vec::new(),
            numbers: BTreeMap::new(),
            found: Vec::new(),
            is_told: false,
        }
    }

    fn site(&mut self, stack: usize) -> u32 {
        self.be_ready();
        let mut place = Site::default();
        if !self.walk(stack, |frame| place.look(frame)) {
            place = Site::default();
            self.unwind(stack, |frame| place.look(frame));
        }
        match place {
            Site {
                known: Some(site), ..
            } => site,
            Site {
                count: 1,
                is_authors: true,
                addresses: [address, ..],
                ..
            } => self.number_of(address),
            _ => self.number(&place.addresses[..place.count]),
        }
    }

    fn author(&mut self, stack: usize, is_authors: fn(usize) -> bool) -> Option<usize> {
        self.be_ready();
        let mut found = None;
        let mut look = |frame: &mut Frame| {
            if frame.whose == Whose::Unknown {
                frame.whose = match is_authors(frame.address) {
                    true => Whose::Authors,
                    false => Whose::Foreign,
                };
            }
            let is_found = frame.whose == Whose::Authors;
            found = is_found.then_some(frame.address);
            is_found
        };
        if !self.walk(stack, &mut look) {
            self.unwind(stack, look);
        }
        found
    }

    /// What must be known before the first walk.
    fn be_ready(&mut self) {
        self.be_told();
        if self.bounds.is_none() {
            // For the first thread of a process that reads a file.
            self.bounds = Some(hermetic::outside(stack_of_thread));
        }
    }

    /// Takes over what other threads have been told before this one began.
    fn be_told(&mut self) {
        if std::mem::replace(&mut self.is_told, true) {
            return;
        }
        let told = Told::all();
        self.learn(&told.found);
        for (address, is_authors) in &told.whose {
            self.tell_apart(*address, *is_authors);
        }
    }

    fn learn(&mut self, found: &[Found]) {
        for Found(address, step) in found {
            match address {
                0 => self.first_step = *step,
                _ => self.put(*address, *step),
            }
        }
    }

    fn tell_apart(&mut self, address: usize, is_authors: bool) {
        if let Some(frame) = self.frame(address) {
            frame.whose = match is_authors {
                true => Whose::Authors,
                false => Whose::Foreign,
            };
        }
    }

    /// Shows the frames from a stack pointer on, outwards, until `look` has seen enough. Returns
    /// whether it got there; if not, something on the way is not known.
    fn walk(&mut self, mut stack: usize, mut look: impl FnMut(&mut Frame) -> bool) -> bool {
        let Some(bounds) = self.bounds.clone().filter(|all| all.contains(&stack)) else {
            return false;
        };
        if self.first_step == NONE {
            return false;
        }
        let mut step = self.first_step;
        for _ in 0..FRAMES_MAX {
            // Within the frames that are in use: above the stack pointer of the first, and below
            // the end of the stack.
            stack = match stack.checked_add(step) {
                Some(next) if next <= bounds.end && next.is_multiple_of(align_of::<usize>()) => {
                    next
                }
                _ => return false,
            };
            // SAFETY: a step is at least the size of an address, so these bytes lie between the
            // stack pointer at which the walk began and the end of this thread's stack. All of that
            // is readable, whatever is there: if it is not a return address, it is not known.
            let address = unsafe { return_address(stack) };
            let Some(frame) = self.frame(address) else {
                return false;
            };
            if look(frame) {
                return true;
            }
            step = match frame.step {
                VARIABLE => return false,
                NONE => return true,
                step => step,
            };
        }
        true
    }

    /// Shows the same frames as the unwinder knows them. Keeps what it says about them.
    fn unwind(&mut self, stack: usize, mut look: impl FnMut(&mut Frame) -> bool) {
        let mut frames: Vec<(usize, usize)> = Vec::with_capacity(FRAMES_MAX);
        backtrace::trace(|frame| {
            frames.push((frame.ip().addr(), frame.sp().addr()));
            frames.len() < FRAMES_MAX
        });
        // Some unwinders end with a frame at no address, which is the end and not a caller.
        while frames.pop_if(|(address, _)| *address == 0).is_some() {}
        // The frames before it are this function and its callees.
        let own = frames.iter().position(|(_, at)| *at == stack);
        let frames = &frames[own.map_or(0, |own| own + 1)..];
        if own.is_some() {
            let callers = frames.iter().zip(frames[1.min(frames.len())..].iter());
            for ((address, at), caller) in callers {
                self.find(*address, *at, *caller);
            }
            if let Some((address, at)) = frames.first() {
                // SAFETY: the unwinder says that a frame begins there.
                if *at > stack && unsafe { return_address(*at) } == *address {
                    self.first_step = at - stack;
                    self.found.push(Found(0, self.first_step));
                }
            }
            if let (Some((address, _)), true) = (frames.last(), frames.len() < FRAMES_MAX) {
                self.put_found(*address, NONE);
            }
        }
        for (address, _) in frames {
            let mut unknown = Frame {
                address: *address,
                ..Frame::EMPTY
            };
            if look(self.frame(*address).unwrap_or(&mut unknown)) {
                break;
            }
        }
    }

    /// Keeps how far it is from a frame to its caller.
    fn find(&mut self, address: usize, at: usize, (caller, above): (usize, usize)) {
        // SAFETY: the unwinder says that a frame begins there.
        let is_plain = above > at
            && above - at <= FRAME_BYTES_MAX
            && unsafe { return_address(above) } == caller;
        let step = if is_plain { above - at } else { VARIABLE };
        match self.frame(address) {
            Some(known) if known.step == step => {}
            Some(_) => self.put_found(address, VARIABLE),
            None => self.put_found(address, step),
        }
    }

    fn put_found(&mut self, address: usize, step: usize) {
        if self.frame(address).is_some_and(|frame| frame.step == step) {
            return;
        }
        self.put(address, step);
        self.found.push(Found(address, step));
    }

    /// The number of a place that is one of the author's frames.
    fn number_of(&mut self, address: usize) -> u32 {
        let number = self.number(&[address]);
        if let Some(frame) = self.frame(address) {
            frame.site = Some(number);
        }
        number
    }

    fn number(&mut self, addresses: &[usize]) -> u32 {
        if let Some(number) = self.numbers.get(addresses) {
            return *number;
        }
        let number = self.sites.len() as u32;
        self.sites.push(addresses.into());
        self.numbers.insert(addresses.into(), number);
        number
    }

    fn frame(&mut self, address: usize) -> Option<&mut Frame> {
        if self.frames.is_empty() {
            return None;
        }
        let index = self.index(address);
        let frame = &mut self.frames[index];
        (frame.address == address && address != 0).then_some(frame)
    }

    /// Where an address is, or would be.
    fn index(&self, address: usize) -> usize {
        let last = self.frames.len() - 1;
        // Return addresses differ in their low bits; a multiplication mixes them.
        let hash = (address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let mut index = hash as usize & last;
        while self.frames[index].address != address && self.frames[index].address != 0 {
            index = (index + 1) & last;
        }
        index
    }

    /// Keeps a frame, or a new size of one.
    fn put(&mut self, address: usize, step: usize) {
        assert!(address != 0, "a frame has a return address");
        if self.known * 2 >= self.frames.len() {
            self.grow();
        }
        let index = self.index(address);
        let frame = &mut self.frames[index];
        if frame.address == address {
            frame.step = step;
            return;
        }
        let is_foreign = isolation::is_foreign(address);
        *frame = Frame {
            address,
            step,
            whose: match is_foreign {
                true => Whose::Foreign,
                false => Whose::Unknown,
            },
            site: None,
        };
        self.known += 1;
    }

    fn grow(&mut self) {
        let size = (self.frames.len() * 2).max(256);
        let old = std::mem::replace(&mut self.frames, vec![Frame::EMPTY; size]);
        for frame in old.into_iter().filter(|frame| frame.address != 0) {
            let index = self.index(frame.address);
            self.frames[index] = frame;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn caller(depth: usize) -> u32 {
        match depth {
            0 => std::hint::black_box(site()),
            depth => std::hint::black_box(caller(depth - 1)),
        }
    }

    #[test]
    fn a_walk_sees_what_the_unwinder_sees() {
        // Twice the same: first with the unwinder, then with what it has said.
        let mut sites = Vec::new();
        // A loop of unknown length is not unrolled: all calls are made in the same place.
        for depth in std::hint::black_box(vec![3, 3, 5]) {
            sites.push(caller(depth) as usize);
        }
        assert_eq!(sites[0], sites[1]);
        let (places, found) = take_places();
        assert_eq!(places[sites[0]].len() + 2, places[sites[2]].len());
        assert!(found.len() > 5);
    }

    #[test]
    fn a_walk_ends_at_the_author() {
        let mut stack: Box<[usize]> = Box::default();
        for told in [false, true] {
            let site = caller(2);
            let (places, found) = take_places();
            let place = &places[site as usize];
            if told {
                assert_eq!(**place, [stack[1]]);
                assert_eq!(found, []);
            }
            stack.clone_from(place);
            if !told {
                tell_apart(stack[0], false);
                tell_apart(stack[1], true);
            }
        }
    }

    /// Runs in a process of its own, on its main stack: see the test below.
    #[test]
    #[ignore = "walks to the end of the main stack, which the test below does on that stack"]
    fn a_walk_to_the_end_of_the_main_stack() {
        for told in [false, true] {
            let site = caller(2);
            let (places, found) = take_places();
            for address in &places[site as usize] {
                tell_apart(*address, false);
            }
            assert_eq!(told, found.is_empty(), "{found:?}");
            // As the parent of a fork does it, and the next fork begins with it.
            learn(&found);
        }
    }

    #[test]
    fn the_unwinder_is_asked_once_also_where_no_frame_is_the_authors() {
        let name = "coverage::walk::tests::a_walk_to_the_end_of_the_main_stack";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args([name, "--exact", "--ignored", "--test-threads=1"])
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("1 passed"), "{text}");
    }

    // A function with a frame of variable size, as a C compiler makes it of `alloca`: it takes a
    // number of bytes and a function that it calls.
    #[cfg(target_arch = "x86_64")]
    std::arch::global_asm!(
        ".globl shaketable_walk_test_with_room",
        "shaketable_walk_test_with_room:",
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "sub rsp, rdi",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    );

    #[cfg(target_arch = "x86_64")]
    unsafe extern "C" {
        fn shaketable_walk_test_with_room(bytes: usize, call: extern "C" fn() -> u32) -> u32;
    }

    #[cfg(target_arch = "x86_64")]
    extern "C" fn site_there() -> u32 {
        std::hint::black_box(site())
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn frames_of_variable_size_are_left_to_the_unwinder() {
        // One line calls each time, however the compiler likes to unroll. Near the end of a stack,
        // a size that was larger before leads out of it.
        let rooms = std::hint::black_box(vec![1 << 17, 1 << 17, 16, 1 << 12, 16]);
        let mut sites = Vec::new();
        for bytes in rooms {
            // SAFETY: the function calls what it is passed, with that much room on the stack, which
            // has more, and keeps the alignment, because these are multiples of 16.
            sites.push(unsafe { shaketable_walk_test_with_room(bytes, site_there) });
        }
        assert!(sites.iter().all(|site| *site == sites[0]), "{sites:?}");
    }

    #[test]
    fn a_walk_never_reads_beyond_the_stack() {
        // A page with the frames, and one that cannot be read.
        let page = 4096;
        // SAFETY: a new anonymous mapping, part of which is then made unreadable.
        let stack = unsafe {
            let both = libc::mmap(
                std::ptr::null_mut(),
                2 * page,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            );
            assert_ne!(both, libc::MAP_FAILED);
            assert_eq!(
                libc::mprotect(both.byte_add(page), page, libc::PROT_NONE),
                0
            );
            both.expose_provenance()
        };
        let known = 0x1234;
        let begin = stack + page - 64;
        // SAFETY: within the first page.
        unsafe { std::ptr::with_exposed_provenance_mut::<usize>(begin + 8).write(known) };
        for (step, bounds, gets_there) in [
            (32, stack..stack + page, false),
            (page, stack..stack + page, false),
            (VARIABLE - 64, stack..stack + page, false),
            (NONE, stack..stack + page, true),
            // On another stack.
            (NONE, 0..stack, false),
        ] {
            let mut walk = Walk {
                first_step: 16,
                bounds: Some(bounds),
                ..Walk::new()
            };
            walk.put(known, step);
            assert_eq!(walk.walk(begin, |_| false), gets_there, "{step}");
        }
    }
}
