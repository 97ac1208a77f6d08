//! The allocator of the program: blocks from a list of their size, large ones from the system.
//!
//! A simulated transaction makes and forgets about a hundred small objects: messages, tasks, keys.
//! The system's allocator takes a third of the time of a transaction for that, because it keeps
//! neighbours ready to be joined and guards against threads. A simulation has one thread, lives for
//! milliseconds, and asks for the same few sizes again and again; a block that was just given back
//! is the best one to hand out, because it is in the cache. So each thread has a list of free
//! blocks per size, in steps of `STEP` bytes up to `SMALL` and in powers of two up to `MEDIUM`, and
//! cuts new ones off a larger piece.
//!
//! A fork begins afresh (`begin`): what its parent has given back would have to be copied page by
//! page, the moment it is written to. It does not ask the machine for new pages either, which takes
//! a tenth of a seed's time, most of it for the kernel's bookkeeping: it uses its parent's ground
//! (`prepare_ground`), which all forks of one parent use, one after the other (`Ground`). Each
//! finds it empty: what it takes of it, it clears first. Its own children, should the code under
//! test fork, do not have it at all, so they cannot write to it. Beyond the ground, and without
//! one, pieces come from the system with their pages in place, because a machine hands out a
//! hundred pages at once in the time that a few take one by one. A process that has taken many
//! pieces takes larger ones, on large pages if the system has them: who holds a million keys looks
//! at another page with every key, and where each of these has an entry of its own in the page
//! table, finding the page takes longer than reading it.
//!
//! No function of it is inlined. To the compiler what it hands out is as large as it was asked for,
//! and new. An optimiser that sees that a block grows where it is, or that a free one begins with
//! an address, takes accesses behind that size for accesses to something else, and leaves out or
//! moves what it should not.
//!
//! What this promises: a block is handed out once until it is given back, by any thread; a fork
//! sees nothing of another's. What it does not do: give such blocks back to the system, or serve a
//! program whose threads hand blocks to one another for hours: they would pile up at the receiver.
//! It is for the program `shaketable`, whose simulations end with their process; it is not in
//! `libfdb_c.so`, nor in a workload's library, which keeps the allocator it was linked with.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::io;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

/// Sizes are rounded up to a multiple of this, which is also the blocks' alignment.
const STEP: usize = 16;
/// The largest size that is rounded up by steps.
const SMALL: usize = 4096;
/// The largest block that is kept in a list.
const MEDIUM: usize = 1 << 18;
const SMALL_LISTS: usize = SMALL / STEP;
const LISTS_COUNT: usize = SMALL_LISTS + (MEDIUM / SMALL).ilog2() as usize;
/// How much is taken from the system at a time.
const PIECE: usize = 1 << 19;
/// After how many of them a thread counts as one that needs much.
const PIECES_MANY: u32 = 32;
/// How much it takes at a time from then on.
const PIECE_LARGE: usize = 1 << 25;
/// The size of a large page.
pub(crate) const LARGE_PAGE: usize = 1 << 21;
/// How much of the ground is made ready at a time: as many pages as the machine puts in place at
/// once.
const STRETCH: usize = 1 << 16;
/// How large the ground is; a seed of an example takes a third of it.
const GROUND: usize = 1 << 22;

/// See the module. Name it as `#[global_allocator]`.
pub struct Heap;

/// The ground's address, in a process that has one for its forks.
static GROUND_START: AtomicPtr<u8> = AtomicPtr::new(null_mut());
static GROUND_TAKEN: AtomicBool = AtomicBool::new(false);

/// Gives this process ground for its forks.
pub(crate) fn prepare_ground() -> io::Result<()> {
    if GROUND_START.load(Ordering::Relaxed).is_null() {
        // Large pages want the beginning of what is shared to lie at the beginning of one.
        let room = map(GROUND + LARGE_PAGE, libc::MAP_PRIVATE | libc::MAP_NORESERVE);
        let start = room.map_addr(|address| address.next_multiple_of(LARGE_PAGE));
        // SAFETY: the range is a part of the mapping, of which only this knows.
        let shared = !room.is_null()
            && unsafe {
                libc::mmap(
                    start.cast(),
                    GROUND,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_ANONYMOUS | libc::MAP_SHARED | libc::MAP_NORESERVE | libc::MAP_FIXED,
                    -1,
                    0,
                )
            } == start.cast();
        if !shared {
            return Err(io::Error::last_os_error());
        }
        GROUND_START.store(start, Ordering::Relaxed);
    }
    Ok(())
}

/// Puts the ground on large pages, if the system has them: a fork finds each of them in place after
/// it has touched it once. No fork may have the ground.
pub(crate) fn collapse_ground() {
    let start = GROUND_START.load(Ordering::Relaxed);
    if !start.is_null() && !GROUND_TAKEN.load(Ordering::Relaxed) {
        // SAFETY: the range is the mapping of `prepare_ground`; what is in it stays the same. A
        // system that cannot do it refuses, and nothing is lost.
        unsafe { libc::madvise(start.cast(), GROUND, libc::MADV_COLLAPSE) };
    }
}

/// The right of one fork to use the ground; it is held until that fork is gone.
pub(crate) struct Ground(());

impl Ground {
    /// The ground for the next fork, if there is one and no other fork has it.
    pub(crate) fn take() -> Option<Ground> {
        let exists = !GROUND_START.load(Ordering::Relaxed).is_null();
        (exists && !GROUND_TAKEN.swap(true, Ordering::Relaxed)).then_some(Ground(()))
    }

    /// What the fork has left there.
    ///
    /// # Safety
    /// The fork that used it has ended.
    pub(crate) unsafe fn left(self) -> Left {
        Left(())
    }
}

/// The ground as a fork has left it. The next fork may have it when this is dropped.
#[derive(Debug)]
pub(crate) struct Left(());

impl Left {
    /// The bytes at a place that [`place_in_ground`] has returned to the fork; nothing if there is
    /// no such place.
    pub(crate) fn bytes(&self, place: Range<usize>) -> &[u8] {
        if place.start > place.end || place.end > GROUND {
            return &[];
        }
        let start = GROUND_START.load(Ordering::Relaxed);
        // SAFETY: the range is within the mapping of `prepare_ground`, whose bytes all have a
        // value. Who could write to it is gone, and the next fork gets it after this is dropped.
        unsafe { std::slice::from_raw_parts(start.add(place.start), place.len()) }
    }
}

impl Drop for Left {
    fn drop(&mut self) {
        GROUND_TAKEN.store(false, Ordering::Relaxed);
    }
}

/// Where in the ground these bytes are, if they are there: then the parent of this fork can read
/// them when it has ended.
pub(crate) fn place_in_ground(bytes: &[u8]) -> Option<Range<usize>> {
    let ground = GROUND_START.load(Ordering::Relaxed).addr();
    // Exposed, because nothing else in this process may ever read these bytes: to a compiler that
    // sees all of it they would not be worth writing.
    let start = bytes.as_ptr().expose_provenance().checked_sub(ground)?;
    let place = start..start + bytes.len();
    (ground != 0 && place.end <= GROUND).then_some(place)
}

/// Abandons what this thread's lists hold, and uses the ground from now on: called once, by a new
/// fork.
pub(crate) fn begin(ground: Option<&Ground>) {
    let mut fresh = Lists::EMPTY;
    if ground.is_some() {
        let start = GROUND_START.load(Ordering::Relaxed);
        // SAFETY: the range is the mapping of `prepare_ground`.
        let alone = unsafe { libc::madvise(start.cast(), GROUND, libc::MADV_DONTFORK) };
        if alone == 0 {
            (fresh.rest, fresh.ground_bytes) = (start, GROUND);
        }
    }
    LISTS.with(|lists| {
        // SAFETY: this thread's lists, which nothing else uses; a block that is in no list is
        // merely lost.
        unsafe { *lists.get() = fresh };
    });
}

struct Lists {
    /// Blocks of each size that were given back, each of which begins with the address of the next.
    free: [*mut u8; LISTS_COUNT],
    /// What is left of the newest piece.
    rest: *mut u8,
    rest_bytes: usize,
    /// How much more of the ground there is, behind the rest.
    ground_bytes: usize,
    /// How many pieces were taken from the system.
    pieces: u32,
}

thread_local! {
    // Without a destructor and without an initialiser that could allocate: it can be reached at any
    // time of a thread's life.
    static LISTS: UnsafeCell<Lists> = const {
        UnsafeCell::new(Lists::EMPTY)
    };
}

/// The list that serves a layout, if one does.
#[inline]
fn list(layout: Layout) -> Option<usize> {
    // A size of zero wraps to one that no list serves: that saves a comparison in a function that
    // is called a hundred times per transaction.
    let last = layout.size().wrapping_sub(1);
    if layout.align() > STEP {
        None
    } else if last < SMALL {
        Some(last / STEP)
    } else if last < MEDIUM {
        Some(SMALL_LISTS + (last / SMALL).ilog2() as usize)
    } else {
        None
    }
}

/// How large the blocks of a list are.
fn block_bytes(list: usize) -> usize {
    if list < SMALL_LISTS {
        (list + 1) * STEP
    } else {
        (2 * SMALL) << (list - SMALL_LISTS)
    }
}

impl Lists {
    const EMPTY: Lists = Lists {
        free: [null_mut(); LISTS_COUNT],
        rest: null_mut(),
        rest_bytes: 0,
        ground_bytes: 0,
        pieces: 0,
    };

    #[inline]
    fn take(&mut self, list: usize) -> *mut u8 {
        let Some(block) = NonNull::new(self.free[list]) else {
            return self.cut(block_bytes(list));
        };
        // SAFETY: a block in the list has no owner, is at least as large as an address and aligned
        // for one, and `give_back` wrote the next one's address there.
        self.free[list] = unsafe { block.cast::<*mut u8>().read() };
        block.as_ptr()
    }

    /// # Safety
    /// The block came from [`Lists::take`] with the same list, of any thread, and is no longer
    /// used.
    #[inline]
    unsafe fn give_back(&mut self, list: usize, block: *mut u8) {
        // SAFETY: the caller gives up a block that is at least as large as an address and aligned
        // for one.
        unsafe { block.cast::<*mut u8>().write(self.free[list]) };
        self.free[list] = block;
    }

    #[cold]
    fn cut(&mut self, bytes: usize) -> *mut u8 {
        if self.rest_bytes < bytes && !self.reach_out(bytes) {
            return null_mut();
        }
        let block = self.rest;
        // SAFETY: the piece has at least this many bytes left.
        self.rest = unsafe { block.add(bytes) };
        self.rest_bytes -= bytes;
        block
    }

    /// Makes the rest at least this large, from the ground or from the system; returns whether it
    /// could.
    fn reach_out(&mut self, bytes: usize) -> bool {
        let missing = (bytes - self.rest_bytes).next_multiple_of(STRETCH);
        if missing <= self.ground_bytes {
            // SAFETY: the ground continues behind the rest for at least this many bytes, which
            // nothing in this process has used yet and no other process uses now.
            unsafe {
                let stretch = self.rest.add(self.rest_bytes);
                for start in (0..missing).step_by(STRETCH) {
                    // The first to read from a stretch finds all of its pages in place afterwards;
                    // the first to write would find one.
                    stretch.add(start).read_volatile();
                }
                stretch.write_bytes(0, missing);
            }
            self.rest_bytes += missing;
            self.ground_bytes -= missing;
            return true;
        }
        // What is left of the old piece is less than one block, and stays unused; and what is left
        // of the ground with it.
        self.ground_bytes = 0;
        let (piece, bytes) = if self.pieces < PIECES_MANY {
            (map(PIECE, libc::MAP_PRIVATE | libc::MAP_POPULATE), PIECE)
        } else {
            map_large()
        };
        if piece.is_null() {
            return false;
        }
        self.pieces = self.pieces.saturating_add(1);
        (self.rest, self.rest_bytes) = (piece, bytes);
        true
    }
}

/// A large piece, or null, and its size.
fn map_large() -> (*mut u8, usize) {
    let room = map(PIECE_LARGE, libc::MAP_PRIVATE | libc::MAP_NORESERVE);
    if room.is_null() {
        return (room, 0);
    }
    let start = room.map_addr(|address| address.next_multiple_of(LARGE_PAGE));
    let bytes = PIECE_LARGE - (start.addr() - room.addr());
    // SAFETY: the range is a part of the mapping. A system without large pages refuses, and nothing
    // is lost.
    unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) };
    (start, bytes)
}

/// New memory of the system, or null.
pub(crate) fn map(bytes: usize, flags: libc::c_int) -> *mut u8 {
    // SAFETY: a mapping of its own, anonymous, at an address of the machine's choice.
    let start = unsafe {
        libc::mmap(
            null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_ANONYMOUS | flags,
            -1,
            0,
        )
    };
    if start == libc::MAP_FAILED {
        null_mut()
    } else {
        start.cast()
    }
}

// SAFETY: blocks in lists are cut from pieces of the system's memory that are never given back,
// each is in at most one list at a time, and a list belongs to one thread; nothing in here
// allocates or unwinds. All other layouts are the system's business from beginning to end, and
// which are listed depends on the layout alone.
unsafe impl GlobalAlloc for Heap {
    #[inline(never)]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match list(layout) {
            // SAFETY: this thread's lists, and nothing that `take` does comes back here.
            Some(list) => LISTS.with(|lists| unsafe { (*lists.get()).take(list) }),
            // SAFETY: the caller's promise is the one the system wants.
            None => unsafe { System.alloc(layout) },
        }
    }

    #[inline(never)]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match list(layout) {
            // SAFETY: this thread's lists; the caller promises that the block came from here with
            // this layout, hence from this list.
            Some(list) => LISTS.with(|lists| unsafe { (*lists.get()).give_back(list, block) }),
            // SAFETY: the caller's promise is the one the system wants.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    #[inline(never)]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if list(layout).is_none() {
            // SAFETY: the caller's promise is the one the system wants.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: as for `alloc`; and a block that is not null has this many bytes.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    #[inline(never)]
    unsafe fn realloc(&self, block: *mut u8, old: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size, rounded up to the alignment, is a valid one.
        let new = unsafe { Layout::from_size_align_unchecked(size, old.align()) };
        match (list(old), list(new)) {
            (None, None) => {
                // SAFETY: the block is the system's, and stays so.
                unsafe { System.realloc(block, old, size) }
            }
            (from, to) if from == to => block,
            _ => {
                // SAFETY: both blocks are valid for the smaller of the two sizes and cannot
                // overlap; the old one is given up.
                unsafe {
                    let larger = self.alloc(new);
                    if !larger.is_null() {
                        larger.copy_from_nonoverlapping(block, old.size().min(size));
                        self.dealloc(block, old);
                    }
                    larger
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 8).unwrap()
    }

    #[test]
    fn a_block_given_back_is_the_next_one_of_its_size() {
        // SAFETY: each block is used within its size and given back once with its layout.
        unsafe {
            let first = Heap.alloc(layout(40));
            let second = Heap.alloc(layout(48));
            assert_ne!(first, second);
            Heap.dealloc(first, layout(40));
            assert_eq!(Heap.alloc(layout(33)), first, "the same step");
            Heap.dealloc(second, layout(48));
            Heap.dealloc(first, layout(33));
        }
    }

    #[test]
    fn blocks_of_all_sizes_are_apart_and_keep_what_is_written_while_they_grow_and_shrink() {
        let mut blocks = Vec::new();
        for size in (1..10_000).step_by(37) {
            // SAFETY: the size is not zero.
            let block = unsafe { Heap.alloc_zeroed(layout(size)) };
            assert_eq!(block as usize % 8, 0);
            // SAFETY: this many bytes are there, and zero.
            let bytes = unsafe { std::slice::from_raw_parts_mut(block, size) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(size as u8);
            blocks.push((block, size));
        }
        for (number, (block, size)) in blocks.iter_mut().enumerate() {
            let to = if number % 2 == 0 {
                *size * 2
            } else {
                *size / 2 + 1
            };
            // SAFETY: the block is of that layout, and the new size is not zero.
            *block = unsafe { Heap.realloc(*block, layout(*size), to) };
            let kept = to.min(*size);
            // SAFETY: that many bytes were there before and are there now.
            let bytes = unsafe { std::slice::from_raw_parts(*block, kept) };
            assert!(bytes.iter().all(|byte| *byte == *size as u8), "{size}");
            *size = to;
        }
        for (block, size) in blocks {
            // SAFETY: given back once, with the layout it has now.
            unsafe { Heap.dealloc(block, layout(size)) };
        }
    }

    #[test]
    fn a_block_may_be_given_back_by_another_thread() {
        // SAFETY: the size is not zero.
        let block = unsafe { Heap.alloc(layout(64)) } as usize;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // SAFETY: the block is of that layout and nothing else uses it.
                unsafe { Heap.dealloc(block as *mut u8, layout(64)) };
                // SAFETY: the size is not zero.
                assert_eq!(unsafe { Heap.alloc(layout(64)) } as usize, block);
            });
        });
    }

    /// What a fork does with the ground, in a thread: lists are a thread's own.
    fn as_a_fork<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        as_a_fork_before(work, |result, _| result)
    }

    /// The same, and what is done with the ground before the next fork may have it.
    fn as_a_fork_before<T: Send, U>(
        work: impl FnOnce() -> T + Send,
        then: impl FnOnce(T, &Left) -> U,
    ) -> U {
        static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());
        let _one = ONE_AT_A_TIME.lock().unwrap();
        prepare_ground().unwrap();
        let ground = Ground::take().expect("no other fork has it");
        assert!(Ground::take().is_none(), "two forks at once cannot share");
        let result = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                begin(Some(&ground));
                work()
            });
            thread.join().unwrap()
        });
        // SAFETY: the thread that used it has ended.
        then(result, &unsafe { ground.left() })
    }

    #[test]
    fn what_a_fork_has_left_can_be_read_before_the_next_one_has_the_ground() {
        let leave = || {
            // SAFETY: the size is not zero, and the block has this many bytes.
            let block = unsafe { std::slice::from_raw_parts_mut(Heap.alloc(layout(100)), 100) };
            block.fill(0xcd);
            place_in_ground(block)
        };
        as_a_fork_before(leave, |place, left| {
            let place = place.expect("a small block is in the ground");
            assert_eq!(left.bytes(place.clone()), [0xcd; 100]);
            assert!(Ground::take().is_none(), "it is still being read");
            assert!(left.bytes(place.start..GROUND + 1).is_empty());
        });
        assert_eq!(place_in_ground(b"a constant"), None);
    }

    #[test]
    fn each_fork_finds_the_ground_empty_whatever_the_one_before_it_left_there() {
        let sizes = [48, 4096, 5000, STRETCH * 3, 100];
        let take_and_fill = || {
            sizes.map(|size| {
                // SAFETY: the size is not zero; the block has this many bytes, of a mapping in
                // which every byte has a value.
                unsafe {
                    let block = Heap.alloc(layout(size));
                    let bytes = std::slice::from_raw_parts_mut(block, size);
                    assert!(bytes.iter().all(|byte| *byte == 0), "{size}");
                    bytes.fill(0xab);
                    block.addr()
                }
            })
        };
        let first = as_a_fork(take_and_fill);
        let ground = GROUND_START.load(Ordering::Relaxed).addr();
        assert!(
            first
                .iter()
                .all(|block| (ground..ground + GROUND).contains(block))
        );
        assert_eq!(as_a_fork(take_and_fill), first);
    }

    #[test]
    fn a_fork_that_needs_more_than_the_ground_gets_it_from_the_system() {
        as_a_fork(|| {
            let blocks: Vec<usize> = (0..2 * GROUND / MEDIUM)
                .map(|_| {
                    // SAFETY: the size is not zero; this many bytes are there.
                    unsafe {
                        let block = Heap.alloc(layout(MEDIUM));
                        block.write_bytes(1, MEDIUM);
                        block.addr()
                    }
                })
                .collect();
            let mut apart = blocks.clone();
            apart.sort_unstable();
            assert!(apart.windows(2).all(|pair| pair[1] - pair[0] >= MEDIUM));
            let ground = GROUND_START.load(Ordering::Relaxed).addr();
            let end = ground + GROUND;
            assert!(blocks.iter().any(|block| (ground..end).contains(block)));
            assert!(!blocks.iter().all(|block| (ground..end).contains(block)));
        });
    }

    #[test]
    fn a_thread_that_needs_much_gets_blocks_that_are_apart_from_large_pieces_too() {
        let blocks = PIECES_MANY as usize * PIECE / MEDIUM + 3 * PIECE_LARGE / MEDIUM;
        let thread = move || {
            let take = |number: usize| {
                // SAFETY: the size is not zero; this many bytes are there.
                unsafe {
                    let block = Heap.alloc(layout(MEDIUM)).cast::<usize>();
                    block.write(number);
                    block.byte_add(MEDIUM - 8).write(number);
                    block
                }
            };
            let taken: Vec<*mut usize> = (0..blocks).map(take).collect();
            for (number, block) in taken.into_iter().enumerate() {
                // SAFETY: written above; given back once with its layout.
                unsafe {
                    assert_eq!(block.read(), number);
                    assert_eq!(block.byte_add(MEDIUM - 8).read(), number);
                    Heap.dealloc(block.cast(), layout(MEDIUM));
                }
            }
        };
        std::thread::scope(|scope| scope.spawn(thread).join().unwrap());
    }

    #[test]
    fn a_process_that_the_code_under_test_forks_cannot_write_to_the_ground() {
        use nix::sys::wait::{WaitStatus, waitpid};
        as_a_fork(|| {
            // SAFETY: the size is not zero; this many bytes are there. The new process does nothing
            // but write to one of them and end.
            unsafe {
                let block = Heap.alloc(layout(16));
                block.write(1);
                let child = match nix::unistd::fork().unwrap() {
                    nix::unistd::ForkResult::Parent { child } => child,
                    nix::unistd::ForkResult::Child => {
                        block.write_volatile(2);
                        libc::_exit(0)
                    }
                };
                let end = waitpid(child, None).unwrap();
                assert!(matches!(end, WaitStatus::Signaled(..)), "{end:?}");
                assert_eq!(block.read(), 1);
            }
        });
    }
}
