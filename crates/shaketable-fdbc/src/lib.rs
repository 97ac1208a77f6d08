//! The C ABI of `libfdb_c` on top of the miniature cluster: `fdb_c.h` to the letter, with its error
//! codes, its timing and its lifetimes.
//!
//! The crate is used in two ways, through the same code:
//!
//! * as `libfdb_c.so` (the crate `fdb_c`), in place of FoundationDB's: an embedded FoundationDB for
//!   the tests of a program in any language, on a thread of the program's and the clock of the
//!   machine (`network`);
//! * as a Rust library inside a host, which runs its own simulation and lends its databases to the
//!   code under test ([`CApi`]). Linked into a program it brings the symbols `fdb_*` along;
//!   [`keep_symbols`] makes sure that the linker lets it.
//!
//! Every call copies its arguments, posts a closure to the kernel's inbox and returns: nothing is
//! ready on return (except a future that carries an error of its arguments), the order of calls is
//! the order of their effects, and an error of a call that returns nothing is deferred. See
//! `universe` for how handles and objects find each other, `future` for what a future promises.

mod abi;
mod admin;
mod c_api;
mod cluster_file;
mod coverage;
mod database;
mod exports;
mod fate;
mod fork;
mod future;
mod legacy;
mod network;
mod operation;
mod options;
mod outstanding;
mod program_clusters;
mod recorder;
mod thread_bound;
mod transaction;
mod types;
mod universe;
mod value;
mod version;

pub use abi::{
    admin::*, blob::*, database::*, errors::*, future::*, legacy::*, network::*, tenant::*,
    transaction::*,
};
pub use c_api::CApi;
pub use coverage::{CountedCall, Met, Milestone, Reached, SiteProbe};
pub use database::{FDBDatabase, LeaseBreach};
pub use exports::{EXPORTS, Export, keep_symbols};
pub use future::FDBFuture;
pub use legacy::FDBCluster;
pub use outstanding::{Ask, Outstanding, PlaceProbe};
pub use recorder::{Origin, RecordSettings, Recorded};
pub use transaction::FDBTransaction;
pub use types::*;
pub use version::API_VERSION_SIMULATED;
