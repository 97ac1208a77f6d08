//! Trace files in the form of FoundationDB's.
//!
//! People grep them, and tools read them (TestHarness2, fdb-sim-visualizer), so field names, their
//! order, the escaping and the limits are FoundationDB's: every value is text, a value is cut at
//! 495 bytes, an event above 4000 bytes is dropped and replaced by an error. See [`event`] for the
//! shape of an event, [`mod@format`] for the two file formats, [`Log`] for where events go.
//!
//! One difference is deliberate: `DateTime` is simulated, not the machine's clock, so the files of
//! two runs of one seed are equal byte for byte.

pub mod event;
pub mod format;
mod log;

pub use event::{Event, NOWHERE, Severity, is_tag};
pub use format::Format;
pub use log::Log;
