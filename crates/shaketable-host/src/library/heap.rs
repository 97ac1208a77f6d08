//! The allocator of the program: small blocks from a list of their size, everything else from the system.
//!
//! A simulated transaction makes and forgets about a hundred small objects: messages, tasks, keys. The system's allocator takes a third of
//! the time of a transaction for that, because it keeps neighbours ready to be joined and guards against threads. A simulation has one thread, lives
//! for milliseconds, and asks for the same few sizes again and again; a block that was just given back is the best one to give out, for it is in the
//! cache. So each thread has a list of free blocks per size, in steps of `STEP` bytes, and cuts new ones off a larger piece.
//!
//! A fork [begins afresh](begin): what its parent has given back would have to be copied page by page, the moment it is written to. Pieces come with their
//! pages in place, because a machine hands out a hundred pages at once in the time of a few that it is asked for one by one.
//!
//! What this promises: it gives out each block once until it is given back, from whichever thread. What it refuses: to give small blocks
//! back to the system, and to help a program whose threads hand blocks to one another for hours: they would pile up at the receiver. It is
//! for the program `shaketable`, whose simulations end with their process; it is not in `libfdb_c.so`, nor in a workload's library, which keeps
//! the allocator it was linked with.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::ptr::{NonNull, null_mut};

/// Sizes are rounded up to a multiple of this, which is also how blocks are aligned.
const STEP: usize = 16;
/// The largest block that counts as small.
const SMALL: usize = 4096;
/// How much is taken from the system at a time.
const PIECE: usize = 1 << 19;

/// See the module. Name it as `#[global_allocator]`.
pub struct Heap;

/// Leaves what this thread's lists hold, for ever: called once, by a new fork.
pub fn begin() {
    LISTS.with(|lists| {
        // SAFETY: this thread's lists, which nobody else uses; a block that is in no list is merely lost.
        unsafe { *lists.get() = Lists::EMPTY };
    });
}

struct Lists {
    /// Blocks of `STEP * (index + 1)` bytes that were given back, each of which begins with the address of the next.
    free: [*mut u8; SMALL / STEP],
    /// What is left of the newest piece.
    rest: *mut u8,
    rest_bytes: usize,
}

thread_local! {
    // Without a destructor and without an initialiser that could allocate: it can be reached at any time of a thread's life.
    static LISTS: UnsafeCell<Lists> = const {
        UnsafeCell::new(Lists::EMPTY)
    };
}

/// Which list serves such a layout, if one does.
fn list(layout: Layout) -> Option<usize> {
    let small = layout.size() <= SMALL && layout.align() <= STEP && layout.size() > 0;
    small.then(|| (layout.size() - 1) / STEP)
}

impl Lists {
    const EMPTY: Lists = Lists {
        free: [null_mut(); SMALL / STEP],
        rest: null_mut(),
        rest_bytes: 0,
    };

    #[inline]
    fn take(&mut self, list: usize) -> *mut u8 {
        let Some(block) = NonNull::new(self.free[list]) else {
            return self.cut((list + 1) * STEP);
        };
        // SAFETY: a block in the list is nobody's, is at least as large as an address and aligned for one, and `give_back` wrote the next one's there.
        self.free[list] = unsafe { block.cast::<*mut u8>().read() };
        block.as_ptr()
    }

    /// # Safety
    /// The block came from [`Lists::take`] with the same list, of any thread, and nobody uses it any more.
    unsafe fn give_back(&mut self, list: usize, block: *mut u8) {
        // SAFETY: the caller gives up a block that is at least as large as an address and aligned for one.
        unsafe { block.cast::<*mut u8>().write(self.free[list]) };
        self.free[list] = block;
    }

    #[cold]
    fn cut(&mut self, bytes: usize) -> *mut u8 {
        if self.rest_bytes < bytes {
            // What is left of the old piece is less than one small block, and stays unused.
            // SAFETY: a mapping of its own, anonymous and private, at an address of the machine's choice.
            let piece = unsafe {
                libc::mmap(
                    null_mut(),
                    PIECE,
                    libc::PROT_READ | libc::PROT_WRITE,
                    libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                    -1,
                    0,
                )
            };
            if piece == libc::MAP_FAILED {
                return null_mut();
            }
            (self.rest, self.rest_bytes) = (piece.cast(), PIECE);
        }
        let block = self.rest;
        // SAFETY: the piece has at least so many bytes left.
        self.rest = unsafe { block.add(bytes) };
        self.rest_bytes -= bytes;
        block
    }
}

// SAFETY: small blocks are cut from pieces of the system's memory that are never given back, each is in at most one list at a time, and a list belongs to one
// thread; nothing in here allocates or unwinds. All other layouts are the system's business from beginning to end, and which are small depends on the layout alone.
unsafe impl GlobalAlloc for Heap {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match list(layout) {
            // SAFETY: this thread's lists, and nothing that `take` does comes back here.
            Some(list) => LISTS.with(|lists| unsafe { (*lists.get()).take(list) }),
            // SAFETY: the caller's promise is the one the system wants.
            None => unsafe { System.alloc(layout) },
        }
    }

    #[inline]
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match list(layout) {
            // SAFETY: this thread's lists; the caller promises that the block came from here with this layout, hence from this list.
            Some(list) => LISTS.with(|lists| unsafe { (*lists.get()).give_back(list, block) }),
            // SAFETY: the caller's promise is the one the system wants.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    #[inline]
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if list(layout).is_none() {
            // SAFETY: the caller's promise is the one the system wants.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: as for `alloc`; and a block that is not null has so many bytes.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    #[inline]
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
                // SAFETY: both blocks are valid for the smaller of the two sizes and cannot overlap; the old one is given up.
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
            // SAFETY: so many bytes are there, and zero.
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
                // SAFETY: the block is of that layout and nobody else has it.
                unsafe { Heap.dealloc(block as *mut u8, layout(64)) };
                // SAFETY: the size is not zero.
                assert_eq!(unsafe { Heap.alloc(layout(64)) } as usize, block);
            });
        });
    }
}
