//! Code that forks find in their page tables: the program's, and that of its libraries.
//!
//! A fork begins without code in its page table, and without what a program only reads: the system
//! puts it there sixteen pages at a time, when one of them is used. That is a hundred faults in a
//! seed, and a tenth of its time. What a process has written itself is inherited with its entries,
//! and what fills a large page has one entry. So a process that forks often replaces all of this by
//! a copy on large pages, once. Of a file that fills large pages the two ends stay as they are: a
//! seed uses four of their pages, and to inherit them is to copy an entry for each of hundreds.
//! Smaller files are replaced whole.
//!
//! What this promises: the same bytes at the same addresses. The first bytes of each library stay
//! where they are: by the mapping that holds them its name is found, while that of the program can
//! be had without. Where the system has no large pages to give, or does not allow it, everything
//! stays as it was.

use super::mapped;
use crate::heap::{self, LARGE_PAGE};
use std::ffi::{c_int, c_void};
use std::ops::Range;

/// Replaces all code that is loaded, and what is only read. Returns how many bytes that were.
pub(super) fn make_inheritable() -> usize {
    // Debuggers and profilers find no file behind such code.
    if std::env::var_os("SHAKETABLE_LARGE_PAGES").is_some_and(|value| value == "off") {
        return 0;
    }
    let mut whole = Vec::new();
    let mut shared = Vec::new();
    for part in fixed_parts() {
        match large_pages(&part.range) {
            Some(large) => whole.push(part.within(large)),
            None => shared.push(part),
        }
    }
    let copies = [whole, shared].into_iter().filter_map(Copies::of);
    copies.map(Copies::replace).sum()
}

/// A part of a file that is loaded and that nobody writes to.
#[derive(Clone)]
struct Part {
    range: Range<usize>,
    protection: c_int,
}

impl Part {
    fn within(&self, range: Range<usize>) -> Part {
        Part {
            range,
            protection: self.protection,
        }
    }
}

/// What of a range lies on whole large pages.
fn large_pages(range: &Range<usize>) -> Option<Range<usize>> {
    let inner = range.start.next_multiple_of(LARGE_PAGE)..range.end / LARGE_PAGE * LARGE_PAGE;
    (inner.start < inner.end).then_some(inner)
}

/// The pages of the code, and of what is only read, of this program and of its libraries, without
/// the first page of each library.
fn fixed_parts() -> Vec<Part> {
    unsafe extern "C" fn visit(info: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
        // SAFETY: `fixed_parts` passes a list that nothing else uses meanwhile, and the loader a
        // file that stays loaded during the call.
        let (parts, info) = unsafe { (&mut *to.cast::<Vec<Part>>(), &*info) };
        // SAFETY: reads what the system has passed to this process.
        let systems = unsafe { libc::getauxval(libc::AT_SYSINFO_EHDR) } as usize;
        // SAFETY: it is what the loader has passed.
        let loaded = unsafe { mapped::parts(info) };
        let mut pages = loaded
            .map(|(range, flags)| {
                let end = range.end.next_multiple_of(PAGE);
                (range.start / PAGE * PAGE..end, flags)
            })
            .peekable();
        let first = pages.peek().map_or(0, |(range, _)| range.start);
        // What the system itself has put there is no file's.
        if first == systems {
            return 0;
        }
        // SAFETY: the name is the loader's, and ends with a zero; that of the program is empty.
        let is_program = unsafe { *info.dlpi_name } == 0;
        let begin = if is_program { first } else { first + PAGE };
        parts.extend(pages.filter_map(|(range, flags)| {
            const CODE: u32 = libc::PF_R | libc::PF_X;
            let protection = match flags {
                libc::PF_R => libc::PROT_READ,
                CODE => libc::PROT_READ | libc::PROT_EXEC,
                _ => return None,
            };
            Some(Part {
                range: range.start.max(begin)..range.end,
                protection,
            })
        }));
        0
    }
    let mut parts: Vec<Part> = Vec::new();
    // SAFETY: the list lives until the call returns.
    unsafe { libc::dl_iterate_phdr(Some(visit), (&raw mut parts).cast()) };
    parts.retain(|part| !part.range.is_empty());
    join(parts)
}

/// Joins what lies side by side. What is only read can then be executed, too, which matters to
/// nobody; and a large page may hold the end of one part and the beginning of the next.
fn join(parts: Vec<Part>) -> Vec<Part> {
    let mut joined: Vec<Part> = Vec::new();
    for part in parts {
        match joined.last_mut() {
            Some(last) if last.range.end == part.range.start => {
                last.range.end = part.range.end;
                last.protection |= part.protection;
            }
            _ => joined.push(part),
        }
    }
    joined
}

/// The size of a small page.
const PAGE: usize = 4096;

/// Copies of parts on large pages, side by side, somewhere else. If they are not used, they are
/// unmapped when this is dropped.
struct Copies {
    parts: Vec<Part>,
    /// The mapping, which is larger by a page than the copies in it.
    room: Range<*mut u8>,
    start: *mut u8,
    used: bool,
}

impl Copies {
    /// Copies parts, if there are large pages for all of them.
    fn of(parts: Vec<Part>) -> Option<Copies> {
        let bytes: usize = parts.iter().map(|part| part.range.len()).sum();
        let bytes = bytes.next_multiple_of(LARGE_PAGE);
        let room_bytes = bytes + LARGE_PAGE;
        let room = heap::map(room_bytes, libc::MAP_PRIVATE | libc::MAP_NORESERVE);
        if room.is_null() {
            return None;
        }
        let start = room.map_addr(|address| address.next_multiple_of(LARGE_PAGE));
        let copies = Copies {
            parts,
            room: room..room.wrapping_add(room_bytes),
            start,
            used: false,
        };
        // SAFETY: the range is within the room, which nothing else uses.
        if unsafe { libc::madvise(start.cast(), bytes, libc::MADV_HUGEPAGE) } != 0 {
            return None;
        }
        for (copy, part) in copies.each() {
            // SAFETY: the copy's bytes are within the room, and nothing else uses them; the part
            // can be read, stays loaded, and nobody writes to it.
            unsafe {
                std::ptr::with_exposed_provenance::<u8>(part.range.start)
                    .copy_to_nonoverlapping(copy, part.range.len());
            }
        }
        (on_large_pages(start.addr()) == Some(bytes)).then_some(copies)
    }

    /// Where the copy of each part is.
    fn each(&self) -> impl Iterator<Item = (*mut u8, &Part)> {
        self.parts.iter().scan(self.start, |next, part| {
            let copy = *next;
            *next = copy.wrapping_add(part.range.len());
            Some((copy, part))
        })
    }

    /// Puts the copies in the places of what they are copies of. Returns for how many bytes the
    /// system did so.
    fn replace(mut self) -> usize {
        let replaced = self.each().filter(|(copy, part)| {
            let place = std::ptr::with_exposed_provenance_mut::<c_void>(part.range.start);
            let (copy, bytes) = (copy.cast::<c_void>(), part.range.len());
            // SAFETY: the bytes at the place are the same before and after, and the system
            // exchanges them at once: threads that execute code there see either.
            unsafe {
                libc::mprotect(copy, bytes, part.protection) == 0
                    && libc::mremap(
                        copy,
                        bytes,
                        bytes,
                        libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED,
                        place,
                    ) == place
            }
        });
        let bytes = replaced.map(|(_, part)| part.range.len()).sum();
        self.used = true;
        bytes
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        let copied = self.parts.iter().map(|part| part.range.len()).sum();
        let end = self.start.wrapping_add(copied);
        // What was used has moved, and something else may be there by now.
        let copies = (!self.used).then_some(self.start..end);
        // The last large page is seldom full.
        let around = [self.room.start..self.start, end..self.room.end];
        for part in around.into_iter().chain(copies) {
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

    fn bytes(part: &Part) -> Vec<u8> {
        // SAFETY: a part of a file that stays loaded, which can be read and does not change.
        unsafe {
            let start = std::ptr::with_exposed_provenance::<u8>(part.range.start);
            std::slice::from_raw_parts(start, part.range.len()).to_vec()
        }
    }

    #[test]
    fn code_that_was_replaced_is_the_same_and_at_the_same_place() {
        let parts = fixed_parts();
        assert!(parts.len() > 3, "there is a C library, at least");
        let before: Vec<_> = parts.iter().map(bytes).collect();
        let replaced = make_inheritable();
        let all: usize = before.iter().map(Vec::len).sum();
        assert!(replaced <= all, "{replaced} of {all}");
        let after: Vec<_> = parts.iter().map(bytes).collect();
        assert!(before == after);
        // What runs now is the copy, where there is one.
        let whole = parts.iter().filter_map(|part| large_pages(&part.range));
        let large: usize = whole.filter_map(|part| on_large_pages(part.start)).sum();
        assert!(large <= replaced, "{large} of {replaced}");
        assert_eq!(replaced == 0, large == 0);
    }

    #[test]
    fn the_first_page_of_each_library_keeps_its_name() {
        let begins = |part: &Part| part.range.start;
        let parts: Vec<usize> = fixed_parts().iter().map(begins).collect();
        assert!(parts.iter().all(|start| start.is_multiple_of(PAGE)));
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let begins: Vec<(usize, &str)> = { maps.lines() }
            .filter(|line| line.contains(" 00000000 ") && line.contains(".so"))
            .map(|line| (line.split('-').next().unwrap(), line))
            .map(|(start, line)| (usize::from_str_radix(start, 16).unwrap(), line))
            .collect();
        assert!(begins.len() > 1, "there is a C library, at least: {maps}");
        for (start, line) in begins {
            assert!(!parts.contains(&start), "{line}");
        }
    }

    #[test]
    fn only_whole_pages_count() {
        assert_eq!(large_pages(&(5..LARGE_PAGE)), None);
        assert_eq!(
            large_pages(&(5..3 * LARGE_PAGE + 7)),
            Some(LARGE_PAGE..3 * LARGE_PAGE)
        );
        assert_eq!(
            large_pages(&(LARGE_PAGE..2 * LARGE_PAGE)),
            Some(LARGE_PAGE..2 * LARGE_PAGE)
        );
    }
}
