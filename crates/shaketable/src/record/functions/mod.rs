//! The functions of libfdb_c that are listened to.
//!
//! Each notes the call, passes it on, and notes what it returned. Nothing of the recorder is
//! borrowed while a real function runs: some call back into the library.
//!
//! They are sorted by what they are about: what a transaction reads (`reads.rs`) and writes
//! (`writes.rs`), the course that it takes (`course.rs`), and the futures by which it is answered
//! (`futures.rs`). What they are given is copied in the form of a record (`values.rs`); the
//! functions that they stand for are in `real.rs`.

mod course;
mod futures;
mod reads;
mod real;
mod values;
mod writes;

use crate::hidden::hidden;
use course::{
    fdb_transaction_cancel, fdb_transaction_commit, fdb_transaction_destroy,
    fdb_transaction_get_read_version, fdb_transaction_on_error, fdb_transaction_reset,
    fdb_transaction_set_option, fdb_transaction_set_read_version,
};
use futures::{fdb_future_destroy, fdb_future_get_error};
use reads::{
    fdb_transaction_get, fdb_transaction_get_key, fdb_transaction_get_mapped_range,
    fdb_transaction_get_range, fdb_transaction_watch,
};
use writes::{
    fdb_transaction_add_conflict_range, fdb_transaction_atomic_op, fdb_transaction_clear,
    fdb_transaction_clear_range, fdb_transaction_set,
};

hidden!(
    shaketable_hidden_record,
    fdb_future_destroy,
    fdb_future_get_error,
    fdb_transaction_add_conflict_range,
    fdb_transaction_atomic_op,
    fdb_transaction_cancel,
    fdb_transaction_clear,
    fdb_transaction_clear_range,
    fdb_transaction_commit,
    fdb_transaction_destroy,
    fdb_transaction_get,
    fdb_transaction_get_key,
    fdb_transaction_get_mapped_range,
    fdb_transaction_get_range,
    fdb_transaction_get_read_version,
    fdb_transaction_on_error,
    fdb_transaction_reset,
    fdb_transaction_set,
    fdb_transaction_set_option,
    fdb_transaction_set_read_version,
    fdb_transaction_watch,
);

unsafe extern "C" {
    fn shaketable_hidden_record();
}

/// Keeps the functions in the library.
pub(super) fn keep() {
    std::hint::black_box(shaketable_hidden_record as *const ());
}
