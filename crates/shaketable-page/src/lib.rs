//! A page to look at one run, and a Perfetto trace of the same.
//!
//! [`html`] turns a record and its explanation into one self-contained HTML file: lanes for clients
//! and for the processes of the cluster, findings that jump to their proof, a search, a table for
//! screen readers. It opens from a disk, without a server and without a network. `perfetto`, a
//! feature, makes a trace for those who live in <https://ui.perfetto.dev>.
//!
//! Both are functions of their arguments and of nothing else: no files, no clock, the same bytes
//! for the same record.
//!
//! The work is divided so that each side does what it is good at. Rust reads the record (`words`
//! puts keys, calls and fates into words, `cluster` turns events into what processes went through)
//! and writes plain columns of numbers and strings (`document`). The script, in `src/assets`, only
//! lays out, draws and answers to the user; it never sees raw bytes.
//!
//! A record is hostile input. Keys, values and messages come from the code under test and may hold
//! anything, so they reach the page as JSON in which no character can end its script element, the
//! script puts them on the page as text and never as markup, and the page's content security
//! policy lets nothing run but the script and the style that this crate brings, by their hashes.

mod cluster;
mod curve;
mod document;
mod html;
mod outcome;
#[cfg(feature = "perfetto")]
mod perfetto;
mod words;

pub use curve::{Curve, Likelihood};
pub use html::{html, write_html};
#[cfg(feature = "perfetto")]
pub use perfetto::perfetto;
