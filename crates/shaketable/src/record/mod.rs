//! Records what the clients of this library see, into the trace of its host.
//!
//! The embedded simulation records both sides of every transaction. fdbserver records neither, so
//! with the feature `record` the library does what a client can: it notes its own calls of libfdb_c
//! and what they were answered, and writes each as a trace event. `shaketable explain --trace` puts
//! them together again.
//!
//! A workload reaches the database through the crate `foundationdb`, and that one through the
//! functions of libfdb_c. The library answers these functions itself, under their own names but
//! hidden (see [`hidden`](crate::hidden)), and passes every call on to the real one, which is found
//! by name: libfdb_c's under fdbserver, the program's under `shaketable run`. So every workload is
//! recorded, unchanged, whatever it is built on; and without the feature nothing of this exists.
//!
//! * An answer is recorded when the client hears it: when it asks the future for its error, which
//!   the crate does first. A future that is destroyed unheard was dropped.
//! * The version that an attempt reads at is asked for after its first read was answered, when the
//!   client knows it without a word to the cluster. This is the only call that the library adds.
//! * What a client cannot know is left open: the fate of a commit after 1021, with whom a commit
//!   conflicted, what others committed. The reader infers what later reads reveal.
//!
//! * A call is noted with the addresses of its frames; its line is looked up by the reader (see
//!   [`stack`](crate::stack)).
//!
//! Not recorded: versionstamps, and the second reads of mapped ranges.

mod functions;
mod recorder;

pub(crate) use recorder::{phase_begins, phase_ended};
