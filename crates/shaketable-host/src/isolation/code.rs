//! The program's code on large pages, which forks inherit; and what it only reads.
//!
//! A fork begins without the code in its page table: the system puts it there sixteen pages at a
//! time, when one of them is used. That is a hundred faults in a seed, and a tenth of its time.
//! What a process has written itself is inherited with its entries, and if it lies on large pages,
//! these are few. So a process that forks often replaces its code by a copy of it on large pages:
//! once, and only what lies on whole ones.
//!
//! What this promises: the same bytes at the same addresses. Where the system has no large pages to
//! give, or does not allow it, everything stays as it was.

use super::mapped;
use crate::heap::{self, LARGE_PAGE};
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// Replaces the code of this program, as far as it lies on whole large pages. Returns how many
/// bytes of it that were.
pub(super) fn make_inheritable() -> usize {
    // Debuggers and profilers find no file behind such code.
    if std::env::var_os("SHAKETABLE_LARGE_PAGES").is_some_and(|value| value == "off") {
        return 0;
    }
    let replaced = fixed_parts().into_iter().filter_map(|(part, protection)| {
        let part = whole_pages(part)?;
        let copy = Copy::of(&part, protection)?;
        copy.replace(&part).then_some(part.len())
    });
    replaced.sum()
}

/// What of a range lies on whole large pages. Its first bytes stay where they are: by the mapping
/// that holds them a program finds the name of its own file.
fn whole_pages(range: Range<usize>) -> Option<Range<usize>> {
    let inner = (range.start + 1).next_multiple_of(LARGE_PAGE)..range.end / LARGE_PAGE * LARGE_PAGE;
    (inner.start < inner.end).then_some(inner)
}

/// The parts of the program that nobody writes to, the code and what it only reads, and how each is
/// protected.
fn fixed_parts() -> Vec<(Range<usize>, c_int)> {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
        // SAFETY: `fixed_parts` passes a list that nothing else uses meanwhile, and the loader a
        // file that stays loaded during the call.
        let (parts, info) = unsafe { (&mut *to.cast::<Vec<(Range<usize>, c_int)>>(), &*info) };
        // SAFETY: it is what the loader has passed.
        let fixed = unsafe { mapped::parts(info) }.filter_map(|(range, flags)| {
            const CODE: u32 = libc::PF_R | libc::PF_X;
            let protection = match flags {
                libc::PF_R => libc::PROT_READ,
                CODE => libc::PROT_READ | libc::PROT_EXEC,
                _ => return None,
            };
            Some((range, protection))
        });
        parts.extend(fixed);
        // The program comes first. What the libraries of the code under test do with their pages is
        // unknown, so they keep them.
        1
    }
    let mut parts: Vec<(Range<usize>, c_int)> = Vec::new();
    // SAFETY: the list lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut parts).cast()) };
    parts
}

/// A copy of code on large pages, somewhere else. What is left there is unmapped when this is
/// dropped.
struct Copy {
    /// The mapping, which is larger by a page than the copy in it.
    room: Range<*mut u8>,
    start: *mut u8,
    bytes: usize,
    moved: bool,
}

impl Copy {
    /// Copies code, if there are large pages for all of it.
    fn of(code: &Range<usize>, protection: c_int) -> Option<Copy> {
        let (bytes, room_bytes) = (code.len(), code.len() + LARGE_PAGE);
        let room = heap::map(room_bytes, libc::MAP_PRIVATE | libc::MAP_NORESERVE);
        if room.is_null() {
            return None;
        }
        let start = room.map_addr(|address| address.next_multiple_of(LARGE_PAGE));
        let copy = Copy {
            room: room..room.wrapping_add(room_bytes),
            start,
            bytes,
            moved: false,
        };
        // SAFETY: the copy's range is within its room, which nothing else uses; the code can be
        // read, stays loaded, and nobody writes to it.
        let allowed = unsafe {
            libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) == 0 && {
                std::ptr::with_exposed_provenance::<u8>(code.start)
                    .copy_to_nonoverlapping(start, bytes);
                libc::mprotect(start.cast(), bytes, protection) == 0
            }
        };
        (allowed && on_large_pages(start.addr()) == Some(bytes)).then_some(copy)
    }

    /// Puts the copy in the place of the code. Returns whether the system did so.
    fn replace(mut self, code: &Range<usize>) -> bool {
        let place = std::ptr::with_exposed_provenance_mut::<c_void>(code.start);
        // SAFETY: the bytes at the place are the same before and after, and the system exchanges
        // them at once: threads that execute code there see either.
        let moved = unsafe {
            libc::mremap(
                self.start.cast(),
                self.bytes,
                self.bytes,
                libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
                place,
            )
        };
        self.moved = moved == place;
        self.moved
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        let end = self.start.wrapping_add(self.bytes);
        // Where the copy was before it moved, something else may be by now.
        let copy = (!self.moved).then_some(self.start..end);
        let around = [self.room.start..self.start, end..self.room.end];
        for part in around.into_iter().chain(copy) {
            let bytes = part.end.addr() - part.start.addr();
            if bytes > 0 {
                // SAFETY: a part of the mapping, of which only this knows.
                unsafe { libc::munmap(part.start.cast(), bytes) };
            }
        }
    }
}

/// How many bytes of the mapping that begins there are on large pages.
fn on_large_pages(start: usize) -> Option<usize> {
    let maps = std::fs::read_to_string("/proc/self/smaps").ok()?;
    let mapping = format!("{start:x}-");
    let mut lines = maps.lines().skip_while(|line| !line.starts_with(&mapping));
    let large = lines.find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    let kib: usize = large.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code() -> Vec<Range<usize>> {
        let parts = fixed_parts().into_iter();
        parts.filter_map(|(part, _)| whole_pages(part)).collect()
    }

    fn bytes(part: &Range<usize>) -> Vec<u8> {
        // SAFETY: a part of a file that stays loaded, which can be read and does not change.
        unsafe {
            let start = std::ptr::with_exposed_provenance::<u8>(part.start);
            std::slice::from_raw_parts(start, part.len()).to_vec()
        }
    }

    #[test]
    fn code_that_was_replaced_is_the_same_and_at_the_same_place() {
        let before: Vec<_> = code().iter().map(bytes).collect();
        let replaced = make_inheritable();
        let all: usize = before.iter().map(Vec::len).sum();
        assert!(replaced <= all, "{replaced} of {all}");
        let after: Vec<_> = code().iter().map(bytes).collect();
        assert!(before == after);
        // What runs now is the copy, where there is one.
        let parts = code().into_iter();
        let large: usize = parts.filter_map(|part| on_large_pages(part.start)).sum();
        assert_eq!(replaced, large);
    }

    #[test]
    fn only_whole_pages_count() {
        assert_eq!(whole_pages(5..LARGE_PAGE), None);
        assert_eq!(
            whole_pages(5..3 * LARGE_PAGE + 7),
            Some(LARGE_PAGE..3 * LARGE_PAGE)
        );
        assert_eq!(whole_pages(LARGE_PAGE..2 * LARGE_PAGE), None);
        assert_eq!(
            whole_pages(LARGE_PAGE..3 * LARGE_PAGE),
            Some(2 * LARGE_PAGE..3 * LARGE_PAGE)
        );
    }
}
