//! The record of one run: what the code under test asked the database for, what it was told, and
//! what really happened.
//!
//! A [`Record`] is one typed document, whatever host the run had: clients and their phases; each
//! transaction with its attempts, and what each attempt retried; each operation with its key, its
//! result and the line of the code under test that made the call; each commit with its conflict
//! ranges and its true [`Fate`], which the client may never learn; everything that committed, in
//! commit order; and what happened to the cluster meanwhile.
//!
//! This crate has the types, their file form ([`mod@file`]), the lines that a client alone can
//! write ([`seen`]), the forms of a seed ([`mod@seed`]) and readable text for keys ([`text`]). It
//! draws no conclusions: that is the explainer's work. It knows no host, no simulator and no
//! client.
//!
//! Everything refers to everything else by its index in the record's lists ([`AttemptId`] and
//! friends), so a record can be walked in any direction without a search.

pub mod bytes;
pub mod file;
pub mod seed;
pub mod seen;
pub mod text;
mod types;

pub use bytes::Bytes;
pub use seed::{Seed, SeedError};
pub use types::*;
