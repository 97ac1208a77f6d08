//! Where in the code under test a call of the C API was made.
//!
//! The innermost frame that belongs to neither the standard library, nor a package of a registry,
//! nor this project is the author's line: for `trx.get(…)` the call itself, for what `db.run` does
//! the place where it is awaited.
//!
//! There are two ways to note a call, and both return a number for it; its line is looked up later,
//! for the calls that are shown. [`stack`] keeps all addresses on the stack and looks nothing up,
//! which suits a run that will most likely show nothing. [`place`] walks up to the author's frame
//! and no further ([`coverage::author`]), which suits a run that notes every call; whether an
//! address is the author's is looked up when it is met first.

use crate::coverage;
use crate::hermetic;
use crate::isolation;
use shaketable_record::Place;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The calls that were noted. One table for all threads: code under test may call from any.
static CALLS: Mutex<Calls> = Mutex::new(Calls {
    places: BTreeMap::new(),
    found: Vec::new(),
    stacks: Vec::new(),
    numbers: BTreeMap::new(),
});

struct Calls {
    /// The addresses that were looked up, and which of the author's lines they are in.
    places: BTreeMap<usize, Option<Place>>,
    /// Those that the process of a seed has looked up, for its parent.
    found: Vec<usize>,
    stacks: Vec<Box<[usize]>>,
    numbers: BTreeMap<Box<[usize]>, usize>,
}

impl Calls {
    fn table() -> MutexGuard<'static, Calls> {
        // Whatever panicked, the table is whole.
        CALLS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an address is the author's.
    fn is_authors(&mut self, address: usize) -> bool {
        if self.look_up(address) {
            self.found.push(address);
        }
        self.places.get(&address).is_some_and(Option::is_some)
    }

    /// Looks an address up, and returns whether it is new.
    fn look_up(&mut self, address: usize) -> bool {
        if self.places.contains_key(&address) {
            return false;
        }
        // Looking up lines opens files, which must not count as done by the code under test.
        let place = hermetic::outside(|| place_at(address));
        self.places.insert(address, place);
        true
    }

    fn number(&mut self, stack: &[usize]) -> usize {
        if let Some(number) = self.numbers.get(stack) {
            return *number;
        }
        let number = self.stacks.len();
        self.stacks.push(stack.into());
        self.numbers.insert(stack.into(), number);
        number
    }
}

/// How deep the author's line is searched for.
const FRAMES_MAX: usize = 96;

/// The number of the call that is being made, with its whole stack.
pub(crate) fn stack() -> Option<usize> {
    let mut addresses = Vec::with_capacity(FRAMES_MAX);
    backtrace::trace(|frame| {
        addresses.push(frame.ip().addr());
        addresses.len() < FRAMES_MAX
    });
    Some(Calls::table().number(&addresses))
}

/// The number of the call that is being made, by the address of the author's frame; none if no
/// frame is the author's.
pub(crate) fn place() -> Option<usize> {
    let address = coverage::author(|address| Calls::table().is_authors(address))?;
    Some(Calls::table().number(&[address]))
}

/// The author's line at an address.
pub(crate) fn line_of(address: usize) -> Option<String> {
    let mut calls = Calls::table();
    calls.look_up(address);
    let place = calls.places.get(&address)?.as_ref()?;
    Some(format!("{}:{}", place.file, place.line))
}

/// The author's line of a call, as `src/queue.rs:88`.
pub(crate) fn author_line(call: usize) -> Option<String> {
    let place = author_place(call)?;
    Some(format!("{}:{}", place.file, place.line))
}

/// The author's line and function of a call.
pub(crate) fn author_place(call: usize) -> Option<Place> {
    let (stack, known) = {
        let calls = Calls::table();
        let stack = calls.stacks.get(call)?.clone();
        let known = stack.iter().find_map(|address| calls.places.get(address));
        (stack.clone(), known.cloned().flatten())
    };
    known.or_else(|| stack.iter().find_map(|address| place_at(*address)))
}

/// Those of these addresses that were never looked up.
pub(crate) fn unknown(addresses: impl IntoIterator<Item = usize>) -> Vec<usize> {
    let calls = Calls::table();
    let addresses = addresses.into_iter();
    addresses
        .filter(|address| !calls.places.contains_key(address))
        .collect()
}

/// What this process has looked up.
pub(crate) fn found() -> Vec<(usize, Option<Place>)> {
    let mut calls = Calls::table();
    let found = std::mem::take(&mut calls.found);
    let found = found.into_iter().map(|address| {
        let place = calls.places.get(&address).cloned().flatten();
        (address, place)
    });
    found.collect()
}

/// Takes over what a fork of this process has looked up, so that the next one need not: reading the
/// debug information takes as long as a short seed. Libraries stay where they are.
pub(crate) fn learn(found: Vec<(usize, Option<Place>)>) {
    for (address, place) in &found {
        coverage::tell_apart(*address, place.is_some());
    }
    Calls::table().places.extend(found);
}

/// The innermost of the author's lines among these addresses.
pub(crate) fn first_place(mut addresses: impl Iterator<Item = usize>) -> Option<Place> {
    addresses.find_map(place_at)
}

/// The author's lines among these addresses, as `queue::claim at src/queue.rs:88`.
pub(crate) fn author_lines(addresses: &[usize]) -> Vec<String> {
    let places = addresses.iter().filter_map(|address| place_at(*address));
    let lines = places.map(|place| format!("{} at {}:{}", place.function, place.file, place.line));
    lines.take(LINES_MAX).collect()
}

/// More than this helps no reader.
const LINES_MAX: usize = 12;

/// The author's line and function at an address. Of calls that were inlined there, the innermost of
/// the author's counts.
pub(crate) fn place_at(address: usize) -> Option<Place> {
    // The debug information of the program is large, and so is that of the C library where it is
    // installed, compressed: reading either takes longer than a seed.
    if isolation::is_foreign(address) {
        return None;
    }
    // A return address lies behind the call; the byte before it is inside.
    let inside = std::ptr::without_provenance_mut::<c_void>(address.checked_sub(1)?);
    let mut found = None;
    backtrace::resolve(inside, |symbol| {
        if let (None, Some(file), Some(line)) = (&found, symbol.filename(), symbol.lineno())
            && is_authors(file)
        {
            let name = symbol.name().map(|name| format!("{name:#}"));
            found = Some(Place {
                file: shortened(file).display().to_string(),
                line,
                function: function(&name.unwrap_or_default()),
            });
        }
    });
    found
}

/// A function as its author calls it: what the compiler makes of `async` blocks and closures is
/// part of the function that contains them.
fn function(name: &str) -> String {
    let name = name.replace("::{{closure}}", "");
    name.replace("::{closure#0}", "")
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
    // A program that was built elsewhere, such as a downloaded one, does not know the reader's
    // clone.
    let is_in_a_clone = OWN_SOURCES.iter().any(|folder| text.contains(folder));
    // What a build script has written, such as the options of the crate `foundationdb`.
    let is_generated = text.contains("/build/") && text.contains("/out/");
    !is_elsewhere && !is_libc && !is_own && !is_in_a_clone && !is_generated
}

/// What of this project is linked into a workload's library.
const OWN_SOURCES: [&str; 3] = [
    "/crates/shaketable/src/",
    "/crates/shaketable-abi/src/",
    "/crates/shaketable-record/src/",
];

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
    fn the_same_call_has_the_same_number() {
        let calls: Vec<Option<usize>> = (0..3).map(|_| stack()).collect();
        assert_eq!(calls[1], calls[2]);
        let noted = Calls::table().stacks[calls[1].unwrap()].clone();
        // This file is part of the project, so its line does not count as the author's: the test
        // looks for the frame itself.
        let mut lines = Vec::new();
        for address in &noted {
            // The outermost frame has no caller.
            let inside = std::ptr::without_provenance_mut::<c_void>(address.saturating_sub(1));
            backtrace::resolve(inside, |symbol| {
                lines.extend(symbol.name().map(|n| n.to_string()))
            });
        }
        let own = "the_same_call_has_the_same_number";
        assert!(lines.iter().any(|name| name.contains(own)), "{lines:?}");
    }

    #[test]
    fn functions_are_named_as_in_the_source() {
        let name = "queue::Claim::run::{{closure}}::{{closure}}";
        assert_eq!(function(name), "queue::Claim::run");
    }

    #[test]
    fn files_of_the_author_are_told_from_others() {
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(is_authors(Path::new("/home/someone/layer/src/queue.rs")));
        assert!(is_authors(Path::new("examples/cache/src/lib.rs")));
        assert!(is_authors(&own.join("tests/somewhere.rs")));
        assert!(!is_authors(&own.join("src/plan.rs")));
        assert!(!is_authors(Path::new("./nptl/pthread_create.c")));
        let generated =
            "/home/someone/layer/target/debug/build/foundationdb-90947a68/out/options.rs";
        assert!(!is_authors(Path::new(generated)));
        assert!(!is_authors(Path::new("crates/shaketable/src/phase.rs")));
        let clone = Path::new("/home/someone/shaketable/crates");
        assert!(!is_authors(&clone.join("shaketable/src/hidden.rs")));
        assert!(is_authors(&clone.join("shaketable-tickets/src/lib.rs")));
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
