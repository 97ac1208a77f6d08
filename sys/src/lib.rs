//! Declarations of FoundationDB's C API, `fdb_c.h`, written by hand: a drop-in for the crate
//! `foundationdb-sys` that generates them with bindgen.
//!
//! It is used through `[patch.crates-io]`, so that the published crate `foundationdb` compiles and
//! links unchanged on a machine that has neither libclang nor FoundationDB. `README.md` shows how,
//! and what happens at link time and at run time.
//!
//! What it promises:
//! * the features, names, types and signatures of the published crate, for every API version it
//!   knows. The functions of the selected version are declared and no others, so that a program
//!   cannot call what its library lacks;
//! * layouts that are proved while compiling ([`FDBKeyValue`] and its relatives are packed to four
//!   bytes);
//! * a link that needs no libfdb_c: `build.rs` makes a stub of it from `symbols.csv`.
//!
//! Without a version feature it declares the newest version, where the published crate refuses to
//! compile. Two versions at once are refused by `foundationdb-gen`, which is compiled first.
//!
//! What it leaves out: the names of the C library that bindgen drags in with `<stdint.h>`
//! (`__uint8_t`, `INT8_MAX`, …), and in API versions 510 and 520 the struct names `future`,
//! `cluster`, `database` and `transaction`, which became `FDB_future` and so on in version 600.

// The names are those of the C header.
#![allow(non_camel_case_types, non_snake_case, non_upper_case_globals)]

mod functions;
#[cfg(since_710)]
mod granules;
mod options;
mod types;
mod versions;

pub use functions::*;
#[cfg(since_710)]
pub use granules::*;
pub use options::*;
pub use types::*;
pub use versions::*;
