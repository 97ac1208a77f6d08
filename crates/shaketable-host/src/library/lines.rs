//! The lines of a library that another process has run.
//!
//! Under fdbserver a library writes only addresses into the trace, because looking up a line opens
//! files. Here the same file is loaded, as for a run, and the addresses are looked up in it. A file
//! that was built again since has other lines at these addresses, so its build id is compared.

use super::{Library, LoadError};
use crate::call_site;
use shaketable_record::Place;
use shaketable_record::seen::Stack;
use std::ffi::c_void;
use std::path::{Path, PathBuf};

/// Why the lines of a library cannot be told.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
pub enum LinesError {
    /// It cannot be loaded.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// It was built again.
    #[error("{} was built again since", .0.display())]
    Another(PathBuf),
}

/// A library whose lines are known.
#[derive(Debug)]
pub struct Lines {
    base: usize,
}

impl Lines {
    /// Loads the library that these stacks are of.
    pub fn load(stack: &Stack) -> Result<Lines, LinesError> {
        let path = Path::new(&stack.library);
        let library = Library::load(path)?;
        if !has_build_id(path, &stack.build_id) {
            return Err(LinesError::Another(path.to_owned()));
        }
        let factory = library.factory as *const c_void;
        let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: any address may be asked about. What is not found stays zero, which is valid.
        let found = unsafe {
            libc::dladdr(factory, found.as_mut_ptr());
            found.assume_init()
        };
        Ok(Lines {
            base: found.dli_fbase.addr(),
        })
    }

    /// The author's line from which a call was made.
    pub fn place(&self, stack: &Stack) -> Option<Place> {
        let addresses = stack.addresses.iter().map(|address| {
            let address = usize::try_from(*address).unwrap_or(0);
            self.base.wrapping_add(address)
        });
        call_site::first_place(addresses)
    }
}

/// Whether a file has this build id, as a note: sizes of name and content, kind, name, content. Not
/// every linker writes one; then there is nothing to compare.
fn has_build_id(path: &Path, build_id: &str) -> bool {
    let digits = build_id.as_bytes().chunks(2);
    let bytes: Option<Vec<u8>> = digits
        .map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok())
        .collect();
    let note = [b"\x03\0\0\0GNU\0", &bytes.unwrap_or_default()[..]].concat();
    build_id.is_empty()
        || std::fs::read(path).is_ok_and(|file| file.windows(note.len()).any(|part| part == note))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_built_again_is_told_from_the_same_one() {
        let path = std::env::temp_dir().join(format!("build-id-{}", std::process::id()));
        std::fs::write(
            &path,
            b"ELF..\x04\0\0\0\x02\0\0\0\x03\0\0\0GNU\0\xab\x01 and the rest",
        )
        .unwrap();
        assert!(has_build_id(&path, "ab01"));
        assert!(!has_build_id(&path, "ab02"));
        assert!(has_build_id(&path, ""));
        std::fs::remove_file(&path).unwrap();
        assert!(!has_build_id(&path, "ab01"));
    }
}
