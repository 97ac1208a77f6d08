//! The futures by which a transaction is answered.
//!
//! For a call that returns a future the recorder keeps a [`Ticket`]. The client hears the answer
//! when it asks the future for its error, and then the answer is noted; a future that is destroyed
//! before that was dropped unheard.

use super::real;
use super::values::{ROWS_MAX, key_of, length_of, mapped_row_of, row_of, value_of};
use crate::measure;
use crate::record::recorder::{self, Ticket};
use foundationdb_sys::{FDBFuture, FDBTransaction};
use shaketable_record::{Answer, Call};
use std::ffi::{c_int, c_void};
use std::ptr::null;
use std::slice;

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_future_destroy(future: *mut FDBFuture) {
    measure::destroyed(future);
    if let Some(ticket) = recorder::arrived(future) {
        recorder::answer(&ticket, Answer::Dropped, None);
    }
    // SAFETY: the caller's promise.
    unsafe { real::fdb_future_destroy(future) }
}

/// # Safety
///
/// As the C function.
pub(super) unsafe extern "C" fn fdb_future_get_error(future: *mut FDBFuture) -> c_int {
    // SAFETY: the caller's promise.
    let error = unsafe { real::fdb_future_get_error(future) };
    if error != FUTURE_NOT_SET {
        measure::heard(future, error);
        if let Some(ticket) = recorder::arrived(future) {
            hear(&ticket, future, error);
        }
    }
    error
}

/// The client hears an answer.
fn hear(ticket: &Ticket, future: *mut FDBFuture, error: c_int) {
    let answer = match error {
        // SAFETY: the future is ready, without an error, and of the kind of the call.
        0 => unsafe { content(&ticket.call, future) },
        error => Answer::Error(error),
    };
    let transaction = recorder::transaction_of(ticket);
    let committed = match (&ticket.call, &answer, transaction) {
        (Call::Commit, Answer::Nothing, Some(transaction)) => {
            let mut version = 0;
            // SAFETY: the transaction exists, and has committed.
            let error =
                unsafe { real::fdb_transaction_get_committed_version(transaction, &mut version) };
            (error == 0).then_some(version)
        }
        _ => None,
    };
    let is_read = matches!(
        answer,
        Answer::Value(_) | Answer::Key(_) | Answer::Rows { .. }
    );
    recorder::answer(ticket, answer, committed);
    if let Some(transaction) = transaction.filter(|_| is_read)
        && recorder::wants_read_version(ticket)
    {
        ask_read_version(ticket, transaction);
    }
}

/// Finds out the version that an attempt has read at, which its client knows by now.
fn ask_read_version(ticket: &Ticket, transaction: *mut FDBTransaction) {
    let argument = Box::into_raw(Box::new(ticket.clone())).cast::<c_void>();
    // SAFETY: the transaction exists; the callback is called once, and owns its argument.
    unsafe {
        let future = real::fdb_transaction_get_read_version(transaction);
        real::fdb_future_set_callback(future, Some(read_version_known), argument);
    }
}

unsafe extern "C" fn read_version_known(future: *mut FDBFuture, argument: *mut c_void) {
    // SAFETY: what `ask_read_version` gave.
    let ticket = unsafe { Box::from_raw(argument.cast::<Ticket>()) };
    let mut version = 0;
    // SAFETY: the future is ready, and belongs to this function.
    let error = unsafe {
        match real::fdb_future_get_error(future) {
            0 => real::fdb_future_get_int64(future, &mut version),
            error => error,
        }
    };
    if error == 0 {
        recorder::read_version(&ticket, version);
    }
    // SAFETY: this function is the only one that knows the future.
    unsafe { real::fdb_future_destroy(future) }
}

/// What a future holds.
///
/// # Safety
///
/// The future is ready, without an error, and of the kind of the call.
unsafe fn content(call: &Call, future: *mut FDBFuture) -> Answer {
    let (mut bytes, mut length) = (null(), 0);
    match call {
        Call::GetReadVersion => {
            let mut version = 0;
            // SAFETY: the caller's promise.
            unsafe { real::fdb_future_get_int64(future, &mut version) };
            Answer::Version(version)
        }
        Call::Get { .. } => {
            let mut present = 0;
            // SAFETY: the caller's promise; what is returned lives as long as the future.
            let value = unsafe {
                real::fdb_future_get_value(future, &mut present, &mut bytes, &mut length);
                (present != 0).then(|| value_of(bytes, length))
            };
            Answer::Value(value)
        }
        Call::GetKey { .. } => {
            // SAFETY: as above.
            let key = unsafe {
                real::fdb_future_get_key(future, &mut bytes, &mut length);
                key_of(bytes, length)
            };
            Answer::Key(key)
        }
        Call::GetRange(_) => {
            let (mut rows, mut count, mut more) = (null(), 0, 0);
            // SAFETY: as above.
            let rows = unsafe {
                real::fdb_future_get_keyvalue_array(future, &mut rows, &mut count, &mut more);
                match rows.is_null() {
                    true => &[],
                    false => slice::from_raw_parts(rows, length_of(count)),
                }
            };
            let kept = rows.iter().take(ROWS_MAX);
            Answer::Rows {
                // SAFETY: rows of a ready future.
                rows: kept.map(|row| unsafe { row_of(row) }).collect(),
                count: count as u32,
                more: more != 0,
            }
        }
        Call::GetMappedRange(_) => {
            let (mut rows, mut count, mut more) = (null(), 0, 0);
            // SAFETY: as above.
            let rows = unsafe {
                real::fdb_future_get_mappedkeyvalue_array(future, &mut rows, &mut count, &mut more);
                match rows.is_null() {
                    true => &[],
                    false => slice::from_raw_parts(rows, length_of(count)),
                }
            };
            let kept = rows.iter().take(ROWS_MAX);
            Answer::Rows {
                // SAFETY: rows of a ready future.
                rows: kept.map(|row| unsafe { mapped_row_of(row) }).collect(),
                count: count as u32,
                more: more != 0,
            }
        }
        _ => Answer::Nothing,
    }
}

pub(super) fn awaited(ticket: Option<Ticket>, future: *mut FDBFuture) -> *mut FDBFuture {
    if let Some(ticket) = ticket {
        if let Some(call) = measured(&ticket.call) {
            measure::asked(call, future);
        }
        recorder::awaits(future, ticket);
    }
    future
}

fn measured(call: &Call) -> Option<measure::Call> {
    Some(match call {
        Call::Commit => measure::Call::Commit,
        Call::Get { .. } | Call::GetKey { .. } => measure::Call::Read,
        Call::GetRange(_) | Call::GetMappedRange(_) => measure::Call::RangeRead,
        Call::GetReadVersion => measure::Call::ReadVersion,
        Call::Watch { .. } => measure::Call::Watch,
        _ => return None,
    })
}

/// The error of a future that is not ready.
const FUTURE_NOT_SET: c_int = 2015;
