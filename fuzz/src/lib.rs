//! Random inputs for whatever reads what it did not write, and for the C API against a model.
//!
//! A target is a function from random bytes to nothing: it makes an input of them, hands it to
//! the product and panics when a promise is broken. The bytes come from [`arbtest`], which
//! derives them from one number: the seed that a failure prints is all that a replay needs.
//! Targets take [`arbitrary::Unstructured`], as those of cargo-fuzz do, but nothing here needs a
//! nightly compiler.
//!
//! Blind random bytes rarely get past a parser's first line, so each target spends them on
//! structure: test files that are almost right, calls that make sense one after the other.

mod c_api;
pub mod metric;
mod model;
mod socket;
pub mod test_file;
pub mod trace;

use arbitrary::Unstructured;

/// Something to try with random input.
#[derive(Clone, Copy)]
pub struct Target {
    /// Its name on the command line.
    pub name: &'static str,
    /// Panics when a promise is broken; an error says that the bytes were too few for an input.
    pub run: fn(&mut Unstructured) -> arbitrary::Result<()>,
    /// The most bytes that an input is made of.
    pub bytes_max: u32,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "test-file",
        run: test_file::run,
        bytes_max: 2_000,
    },
    Target {
        name: "c-api",
        run: c_api::run,
        bytes_max: 2_000,
    },
    Target {
        name: "trace",
        run: trace::run,
        bytes_max: 6_000,
    },
    Target {
        name: "socket",
        run: socket::run,
        bytes_max: 2_000,
    },
    Target {
        name: "metric",
        run: metric::run,
        bytes_max: 64,
    },
];
