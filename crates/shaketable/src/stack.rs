//! Where a call comes from, as addresses.
//!
//! Looking up the line of an address reads debug information, which opens files, and nothing that
//! a workload does may depend on those. So a call is noted with the return addresses of this
//! library's own frames, counted from where the library is loaded, and the reader of the trace
//! looks them up in the same file. The walk up the stack stops where the library was called.

use std::ffi::{CStr, c_int, c_void};
use std::ops::Range;
use std::slice;
use std::sync::OnceLock;

/// How many frames of this library are noted. The author's is near the top, below the frames of
/// the crate `foundationdb`.
const FRAMES_MAX: usize = 24;
/// How many frames of others may come first: the unwinder's own.
const FRAMES_BEFORE_MAX: usize = 4;

/// This library, as the loader knows it.
pub(crate) struct Library {
    /// The file.
    pub(crate) path: String,
    /// What the linker has made of the file's content, in hexadecimal digits; empty if it did not.
    pub(crate) build_id: String,
    /// What is added to the addresses of the file.
    bias: usize,
    addresses: Range<usize>,
}

impl Library {
    /// This library.
    pub(crate) fn own() -> Option<&'static Library> {
        static OWN: OnceLock<Option<Library>> = OnceLock::new();
        let search = || {
            let mut own = None;
            // SAFETY: the callback gets what it expects, and is done when this returns.
            unsafe { libc::dl_iterate_phdr(Some(is_own), (&raw mut own).cast()) };
            own
        };
        OWN.get_or_init(search).as_ref()
    }

    /// The return addresses of the call that is being made, the innermost first.
    pub(crate) fn stack(&self) -> Vec<u64> {
        let mut walk = Walk {
            library: self,
            before: 0,
            found: Vec::with_capacity(FRAMES_MAX),
        };
        // SAFETY: the callback gets what it expects, and is done when this returns.
        unsafe { _Unwind_Backtrace(step, (&raw mut walk).cast()) };
        walk.found
    }
}

struct Walk<'a> {
    library: &'a Library,
    before: usize,
    found: Vec<u64>,
}

/// `_URC_NO_REASON` goes on, everything else ends the walk.
const GO_ON: c_int = 0;
const END: c_int = 5;

extern "C" fn step(frame: *mut c_void, walk: *mut c_void) -> c_int {
    // SAFETY: what `stack` has given; the frame is the unwinder's.
    let (walk, address) = unsafe { (&mut *walk.cast::<Walk<'_>>(), _Unwind_GetIP(frame)) };
    match (walk.library.addresses.contains(&address), &walk.found[..]) {
        (true, _) => walk.found.push((address - walk.library.bias) as u64),
        (false, []) if walk.before < FRAMES_BEFORE_MAX => walk.before += 1,
        (false, _) => return END,
    }
    match walk.found.len() < FRAMES_MAX {
        true => GO_ON,
        false => END,
    }
}

// The standard library has these for its own backtraces.
unsafe extern "C" {
    fn _Unwind_Backtrace(
        step: extern "C" fn(*mut c_void, *mut c_void) -> c_int,
        argument: *mut c_void,
    ) -> c_int;
    fn _Unwind_GetIP(frame: *mut c_void) -> usize;
}

/// Keeps the object that contains this function.
unsafe extern "C" fn is_own(
    info: *mut libc::dl_phdr_info,
    _size: libc::size_t,
    own: *mut c_void,
) -> c_int {
    // SAFETY: the loader's own, and what `own` has given.
    let (info, own) = unsafe { (&*info, &mut *own.cast::<Option<Library>>()) };
    // SAFETY: the loader's own.
    let headers = unsafe { slice::from_raw_parts(info.dlpi_phdr, usize::from(info.dlpi_phnum)) };
    let bias = info.dlpi_addr as usize;
    let loaded = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_LOAD);
    let ranges = loaded.map(|header| {
        let begin = bias + header.p_vaddr as usize;
        begin..begin + header.p_memsz as usize
    });
    let Some(addresses) = ranges.reduce(|one, two| one.start.min(two.start)..one.end.max(two.end))
    else {
        return 0;
    };
    if !addresses.contains(&(is_own as *const () as usize)) {
        return 0;
    }
    // SAFETY: the loader's own: a name that ends with NUL.
    let path = unsafe { CStr::from_ptr(info.dlpi_name) };
    let notes = headers
        .iter()
        .filter(|header| header.p_type == libc::PT_NOTE);
    let build_id = notes
        .filter_map(|header| {
            let begin = std::ptr::with_exposed_provenance(bias + header.p_vaddr as usize);
            // SAFETY: the object is loaded, with its notes.
            build_id(unsafe { slice::from_raw_parts(begin, header.p_memsz as usize) })
        })
        .next();
    *own = Some(Library {
        path: path.to_string_lossy().into_owned(),
        build_id: build_id.unwrap_or_default(),
        bias,
        addresses,
    });
    1
}

/// The build id among notes. Each has the sizes of its name and its content, a kind, the name and
/// the content, and everything begins at a multiple of four bytes.
fn build_id(mut notes: &[u8]) -> Option<String> {
    const GNU_BUILD_ID: u32 = 3;
    loop {
        let word = |at: usize| -> Option<u32> {
            let bytes = notes.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_ne_bytes(bytes))
        };
        let (name_bytes, content_bytes) = (word(0)? as usize, word(4)? as usize);
        let content = 12 + name_bytes.next_multiple_of(4);
        if word(8)? == GNU_BUILD_ID && notes.get(12..12 + name_bytes)? == b"GNU\0" {
            let bytes = notes.get(content..content + content_bytes)?;
            return Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        notes = notes.get(content + content_bytes.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(kind: u32, name: &[u8], content: &[u8]) -> Vec<u8> {
        let mut note = Vec::new();
        for word in [name.len() as u32, content.len() as u32, kind] {
            note.extend(word.to_ne_bytes());
        }
        for part in [name, content] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn a_build_id_is_found_among_other_notes() {
        let other = note(5, b"GNU\0", &[9; 7]);
        let id = note(3, b"GNU\0", &[0xab, 0x01]);
        assert_eq!(build_id(&[&other[..], &id].concat()).unwrap(), "ab01");
        assert_eq!(build_id(&other), None);
        assert_eq!(build_id(&id[..id.len() - 4]), None);
        assert_eq!(build_id(&[]), None);
    }

    #[test]
    fn a_stack_has_the_addresses_of_this_program_only() {
        let own = Library::own().expect("this program is loaded");
        let stack = own.stack();
        assert!(!stack.is_empty());
        let size = own.addresses.len() as u64;
        assert!(stack.iter().all(|address| *address < size), "{stack:x?}");
    }
}
