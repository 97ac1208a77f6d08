//! Where in the code under test a call of the C API was made.
//!
//! The stack is looked at when the call is made and only its addresses are kept; names and lines
//! are found later, for the few that a report shows. The innermost frame that belongs to neither
//! the standard library, nor a package of a registry, nor this project is the author's line: for
//! `trx.get(…)` the call itself, for what `db.run` does the place where it is awaited.

use std::ffi::c_void;
use std::path::Path;

/// The addresses on the stack of the caller, innermost first.
pub(crate) fn stack() -> Box<[usize]> {
    let mut addresses = Vec::with_capacity(FRAMES_MAX);
    backtrace::trace(|frame| {
        addresses.push(frame.ip().addr());
        addresses.len() < FRAMES_MAX
    });
    addresses.into()
}

/// How deep the author's line is searched for.
const FRAMES_MAX: usize = 96;

/// The author's line, as `src/queue.rs:88`.
pub(crate) fn author_line(stack: &[usize]) -> Option<String> {
    let mut found = None;
    for address in stack {
        // A return address lies behind the call; the byte before it is inside.
        let inside = std::ptr::without_provenance_mut::<c_void>(address.checked_sub(1)?);
        backtrace::resolve(inside, |symbol| {
            if let (None, Some(file), Some(line)) = (&found, symbol.filename(), symbol.lineno())
                && is_authors(file)
            {
                found = Some(format!("{}:{line}", shortened(file).display()));
            }
        });
        if found.is_some() {
            break;
        }
    }
    found
}

/// Whether a source file is the author's own.
fn is_authors(file: &Path) -> bool {
    let text = file.to_string_lossy();
    let is_elsewhere = [
        "/registry/src/",
        "/rustc/",
        "/library/std/",
        "/library/core/",
    ]
    .iter()
    .any(|part| text.contains(part));
    // Where glibc was built with debug information, a thread begins in one of its files.
    let is_libc = ["./csu/", "./nptl/", "../sysdeps/"]
        .iter()
        .any(|folder| text.contains(folder));
    // What cargo builds of a workspace is named from the folder of the workspace, else in full.
    let rooms = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let own = file
        .strip_prefix("crates")
        .ok()
        .filter(|_| file.is_relative())
        .or_else(|| file.strip_prefix(rooms?).ok());
    let is_own = own.is_some_and(|path| {
        let mut parts = path.iter();
        parts
            .next()
            .is_some_and(|name| name.to_string_lossy().starts_with("shaketable"))
            && parts.next().is_some_and(|folder| folder == "src")
    });
    !is_elsewhere && !is_libc && !is_own
}

/// A path as it is seen from here.
fn shortened(file: &Path) -> &Path {
    let here = std::env::current_dir();
    let from_here = here.ok().and_then(|here| file.strip_prefix(here).ok());
    from_here.unwrap_or(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_that_called_is_found() {
        let stack = stack();
        let line = line!() - 1;
        // This file is part of the project, so its line does not count as the author's: the test
        // looks for the frame itself.
        let mut lines = Vec::new();
        for address in &stack {
            // The outermost frame has no caller.
            let inside = std::ptr::without_provenance_mut::<c_void>(address.saturating_sub(1));
            backtrace::resolve(inside, |symbol| lines.extend(symbol.lineno()));
        }
        assert!(lines.contains(&line), "{line} is not among {lines:?}");
    }

    #[test]
    fn files_of_the_author_are_told_from_others() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(is_authors(Path::new("/home/someone/layer/src/queue.rs")));
        assert!(is_authors(Path::new("examples/cache/src/lib.rs")));
        assert!(is_authors(&own.join("tests/somewhere.rs")));
        assert!(!is_authors(&own.join("src/plan.rs")));
        assert!(!is_authors(Path::new("crates/shaketable/src/phase.rs")));
        let dependency = "/home/someone/.cargo/registry/src/index/foundationdb-0.11.0/src/lib.rs";
        assert!(!is_authors(Path::new(dependency)));
        assert!(!is_authors(Path::new("./nptl/pthread_create.c")));
        assert!(!is_authors(Path::new(
            "./misc/../sysdeps/unix/sysv/linux/x86_64/clone3.S"
        )));
        assert!(!is_authors(Path::new(
            "/rustc/59807/library/core/src/future/mod.rs"
        )));
    }
}
