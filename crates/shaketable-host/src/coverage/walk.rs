//! Which line of the code under test makes a call, found fast enough for every call of every seed.
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
//! again, and from then on each time it comes this way.
//!
//! Whose code an address is takes debug information to know, which is too slow for the process of a
//! seed. It returns the addresses of a stack that are new, together with the sizes of their frames;
//! its parent looks them up ([`learn`], [`tell_apart`]), and the next fork knows them. In a program
//! whose seeds have threads instead, the next thread does.

use crate::isolation;
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::BTreeMap;
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
    /// The distance from the frame of [`site`] to that of its caller.
    first_step: usize,
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
pub(crate) struct Found(usize, usize);

thread_local! {
    static WALK: RefCell<Walk> = const {
        RefCell::new(Walk {
            frames: Vec::new(),
            known: 0,
            first_step: NONE,
            sites: Vec::new(),
            numbers: BTreeMap::new(),
            found: Vec::new(),
            is_told: false,
        })
    };
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
#[inline(never)]
pub(crate) fn site() -> u32 {
    let stack = stack_pointer();
    // Code under test may call while a thread ends; what is counted then is lost anyway.
    let number = WALK.try_with(|walk| walk.borrow_mut().site(stack));
    number.unwrap_or(0)
}

/// The addresses of the places, by their numbers, and the frames that this process has found.
pub(crate) fn take_places() -> (Vec<Box<[usize]>>, Vec<Found>) {
    WALK.with_borrow_mut(|walk| {
        walk.numbers.clear();
        walk.frames.iter_mut().for_each(|frame| frame.site = None);
        (
            std::mem::take(&mut walk.sites),
            std::mem::take(&mut walk.found),
        )
    })
}

/// Takes over what a fork of this process has found.
pub(crate) fn learn(found: &[Found]) {
    WALK.with_borrow_mut(|walk| {
        walk.be_told();
        walk.learn(found);
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

/// The return address below a frame on the stack of this thread.
///
/// # Safety
/// `stack` is a multiple of eight and lies on this thread's stack, in or above the caller's frame.
unsafe fn return_address(stack: usize) -> usize {
    // SAFETY: the caller vouches that this is part of the stack, which is readable and outlives the
    // call.
    unsafe { std::ptr::with_exposed_provenance::<usize>(stack - 8).read() }
}

impl Walk {
    fn site(&mut self, stack: usize) -> u32 {
        if !self.is_told {
            self.be_told();
        }
        self.walk(stack).unwrap_or_else(|| self.unwind(stack))
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

    /// The place, if everything up to the author is known.
    fn walk(&mut self, mut stack: usize) -> Option<u32> {
        if self.first_step == NONE {
            return None;
        }
        let mut unknown = [0; FRAMES_MAX];
        let mut unknown_count = 0;
        stack += self.first_step;
        for _ in 0..FRAMES_MAX {
            // SAFETY: the stack pointer of the frame below, and a distance that was found at this
            // same address: the caller's frame begins there, or, if frames of this address vary in
            // size, somewhere near; the outermost frame is large enough for that.
            let address = unsafe { return_address(stack) };
            let frame = *self.frame(address)?;
            match frame.whose {
                Whose::Foreign => {}
                Whose::Authors if unknown_count == 0 => {
                    return Some(match frame.site {
                        Some(site) => site,
                        None => self.number_of(address),
                    });
                }
                Whose::Authors | Whose::Unknown => {
                    unknown[unknown_count] = address;
                    unknown_count += 1;
                }
            }
            if frame.step == VARIABLE {
                return None;
            }
            if frame.step == NONE || frame.whose == Whose::Authors {
                break;
            }
            stack += frame.step;
        }
        Some(self.number(&unknown[..unknown_count]))
    }

    /// The place as the unwinder knows it. Keeps what it says about frames.
    fn unwind(&mut self, stack: usize) -> u32 {
        let mut frames: Vec<(usize, usize)> = Vec::with_capacity(FRAMES_MAX);
        backtrace::trace(|frame| {
            frames.push((frame.ip().addr(), frame.sp().addr()));
            frames.len() < FRAMES_MAX
        });
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
                if unsafe { return_address(*at) } == *address {
                    self.first_step = at - stack;
                    self.found.push(Found(0, self.first_step));
                }
            }
            if let (Some((address, _)), true) = (frames.last(), frames.len() < FRAMES_MAX) {
                self.put_found(*address, NONE);
            }
        }
        let mut places = Vec::new();
        for (address, _) in frames {
            let whose = self.frame(*address).map_or(Whose::Unknown, |one| one.whose);
            if whose != Whose::Foreign {
                places.push(*address);
            }
            if whose == Whose::Authors {
                break;
            }
        }
        self.number(&places)
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
        if self.known * 2 >= self.frames.len() {
            self.grow();
        }
        let index = self.index(address);
        let frame = &mut self.frames[index];
        if frame.address == address {
            frame.step = step;
            return;
        }
        let is_hosts = isolation::is_hosts_own(address);
        *frame = Frame {
            address,
            step,
            whose: match is_hosts {
                true => Whose::Foreign,
                false => Whose::Unknown,
            },
            site: None,
        };
        self.known += 1;
    }

    fn grow(&mut self) {
        let empty = Frame {
            address: 0,
            step: NONE,
            whose: Whose::Unknown,
            site: None,
        };
        let size = (self.frames.len() * 2).max(256);
        let old = std::mem::replace(&mut self.frames, vec![empty; size]);
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
        for depth in [3, 3, 5] {
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
}
