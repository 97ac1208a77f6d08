//! The functions of `fdb_c.h`, one file per object they work on.
//!
//! A function stands under a `cfg` when not every API version has it; `build.rs` sets
//! `since_<version>` for the selected version and all before it. `symbols.csv` holds the same facts
//! in a table, and a test compares the two.

mod blob;
mod database;
mod future;
mod legacy;
mod network;
mod tenant;
mod transaction;

#[cfg(since_710)]
pub use blob::*;
pub use database::*;
pub use future::*;
#[cfg(any(not(since_620), all(since_700, not(since_710))))]
pub use legacy::*;
pub use network::*;
#[cfg(since_710)]
pub use tenant::*;
pub use transaction::*;
