//! The functions of libfdb_c that are listened to.
//!
//! Each notes the call, passes it on, and notes what it returned. Nothing of the recorder is
//! borrowed while a real function runs: some call back into the library.

use super::recorder::{self, Ticket};
use crate::hidden::{hidden, original};
use foundationdb_sys::{FDBCallback, FDBFuture, FDBKeyValue, FDBTransaction};
use shaketable_record::text::atomic_name;
use shaketable_record::{Answer, Bytes, Call, Range, RangeCall, Selector};
use std::ffi::{CStr, c_int, c_void};
use std::mem::transmute;
use std::ptr::{null, null_mut};
use std::slice;
use std::sync::atomic::AtomicPtr;

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
    fdb_transaction_get_range,
    fdb_transaction_get_read_version,
    fdb_transaction_on_error,
    fdb_transaction_reset,
    fdb_transaction_set,
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

/// The real functions.
mod real {
    use super::*;

    macro_rules! real {
        ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)+) => {$(
            /// # Safety
            ///
            /// As the C function.
            #[allow(clippy::too_many_arguments, reason = "the C function has them")]
            pub(super) unsafe fn $name($($argument: $type),*) $(-> $result)? {
                static KNOWN: AtomicPtr<c_void> = AtomicPtr::new(null_mut());
                const NAME: &CStr =
                    match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name without NUL"),
                    };
                type Function = unsafe extern "C" fn($($type),*) $(-> $result)?;
                // SAFETY: libfdb_c's function of that name has this type.
                let function: Function = unsafe { transmute(original(NAME, &KNOWN)) };
                // SAFETY: the caller's promise.
                unsafe { function($($argument),*) }
            }
        )+};
    }

    real! {
        fn fdb_future_destroy(future: *mut FDBFuture);
        fn fdb_future_get_error(future: *mut FDBFuture) -> c_int;
        fn fdb_future_get_int64(future: *mut FDBFuture, out: *mut i64) -> c_int;
        fn fdb_future_get_key(
            future: *mut FDBFuture, key: *mut *const u8, length: *mut c_int
        ) -> c_int;
        fn fdb_future_get_value(
            future: *mut FDBFuture, present: *mut c_int, value: *mut *const u8, length: *mut c_int
        ) -> c_int;
        fn fdb_future_get_keyvalue_array(
            future: *mut FDBFuture,
            rows: *mut *const FDBKeyValue,
            count: *mut c_int,
            more: *mut c_int
        ) -> c_int;
        fn fdb_future_set_callback(
            future: *mut FDBFuture, callback: FDBCallback, argument: *mut c_void
        ) -> c_int;
        fn fdb_transaction_add_conflict_range(
            transaction: *mut FDBTransaction,
            begin: *const u8,
            begin_length: c_int,
            end: *const u8,
            end_length: c_int,
            kind: c_int
        ) -> c_int;
        fn fdb_transaction_atomic_op(
            transaction: *mut FDBTransaction,
            key: *const u8,
            key_length: c_int,
            operand: *const u8,
            operand_length: c_int,
            operation: c_int
        );
        fn fdb_transaction_cancel(transaction: *mut FDBTransaction);
        fn fdb_transaction_clear(
            transaction: *mut FDBTransaction, key: *const u8, key_length: c_int
        );
        fn fdb_transaction_clear_range(
            transaction: *mut FDBTransaction,
            begin: *const u8,
            begin_length: c_int,
            end: *const u8,
            end_length: c_int
        );
        fn fdb_transaction_commit(transaction: *mut FDBTransaction) -> *mut FDBFuture;
        fn fdb_transaction_destroy(transaction: *mut FDBTransaction);
        fn fdb_transaction_get(
            transaction: *mut FDBTransaction, key: *const u8, key_length: c_int, snapshot: c_int
        ) -> *mut FDBFuture;
        fn fdb_transaction_get_committed_version(
            transaction: *mut FDBTransaction, out: *mut i64
        ) -> c_int;
        fn fdb_transaction_get_key(
            transaction: *mut FDBTransaction,
            key: *const u8,
            key_length: c_int,
            or_equal: c_int,
            offset: c_int,
            snapshot: c_int
        ) -> *mut FDBFuture;
        fn fdb_transaction_get_range(
            transaction: *mut FDBTransaction,
            begin: *const u8,
            begin_length: c_int,
            begin_or_equal: c_int,
            begin_offset: c_int,
            end: *const u8,
            end_length: c_int,
            end_or_equal: c_int,
            end_offset: c_int,
            limit: c_int,
            target_bytes: c_int,
            mode: c_int,
            iteration: c_int,
            snapshot: c_int,
            reverse: c_int
        ) -> *mut FDBFuture;
        fn fdb_transaction_get_read_version(transaction: *mut FDBTransaction) -> *mut FDBFuture;
        fn fdb_transaction_on_error(
            transaction: *mut FDBTransaction, error: c_int
        ) -> *mut FDBFuture;
        fn fdb_transaction_reset(transaction: *mut FDBTransaction);
        fn fdb_transaction_set(
            transaction: *mut FDBTransaction,
            key: *const u8,
            key_length: c_int,
            value: *const u8,
            value_length: c_int
        );
        fn fdb_transaction_set_read_version(transaction: *mut FDBTransaction, version: i64);
        fn fdb_transaction_watch(
            transaction: *mut FDBTransaction, key: *const u8, key_length: c_int
        ) -> *mut FDBFuture;
    }
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_get(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    snapshot: c_int,
) -> *mut FDBFuture {
    let ticket = recorder::note(transaction, || Call::Get {
        // SAFETY: the caller's promise.
        key: unsafe { key_of(key, key_length) },
        snapshot: snapshot != 0,
    });
    // SAFETY: the caller's promise.
    let future = unsafe { real::fdb_transaction_get(transaction, key, key_length, snapshot) };
    awaited(ticket, future)
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_get_key(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    or_equal: c_int,
    offset: c_int,
    snapshot: c_int,
) -> *mut FDBFuture {
    let ticket = recorder::note(transaction, || Call::GetKey {
        // SAFETY: the caller's promise.
        selector: unsafe { selector(key, key_length, or_equal, offset) },
        snapshot: snapshot != 0,
    });
    // SAFETY: the caller's promise.
    let future = unsafe {
        real::fdb_transaction_get_key(transaction, key, key_length, or_equal, offset, snapshot)
    };
    awaited(ticket, future)
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_get_range(
    transaction: *mut FDBTransaction,
    begin: *const u8,
    begin_length: c_int,
    begin_or_equal: c_int,
    begin_offset: c_int,
    end: *const u8,
    end_length: c_int,
    end_or_equal: c_int,
    end_offset: c_int,
    limit: c_int,
    target_bytes: c_int,
    mode: c_int,
    iteration: c_int,
    snapshot: c_int,
    reverse: c_int,
) -> *mut FDBFuture {
    let ticket = recorder::note(transaction, || {
        Call::GetRange(RangeCall {
            // SAFETY: the caller's promise.
            begin: unsafe { selector(begin, begin_length, begin_or_equal, begin_offset) },
            // SAFETY: the caller's promise.
            end: unsafe { selector(end, end_length, end_or_equal, end_offset) },
            limit,
            target_bytes,
            mode,
            iteration,
            snapshot: snapshot != 0,
            reverse: reverse != 0,
        })
    });
    // SAFETY: the caller's promise.
    let future = unsafe {
        real::fdb_transaction_get_range(
            transaction,
            begin,
            begin_length,
            begin_or_equal,
            begin_offset,
            end,
            end_length,
            end_or_equal,
            end_offset,
            limit,
            target_bytes,
            mode,
            iteration,
            snapshot,
            reverse,
        )
    };
    awaited(ticket, future)
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_get_read_version(
    transaction: *mut FDBTransaction,
) -> *mut FDBFuture {
    let ticket = recorder::note(transaction, || Call::GetReadVersion);
    // SAFETY: the caller's promise.
    let future = unsafe { real::fdb_transaction_get_read_version(transaction) };
    awaited(ticket, future)
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_set_read_version(
    transaction: *mut FDBTransaction,
    version: i64,
) {
    recorder::note(transaction, || Call::SetReadVersion(version));
    // SAFETY: the caller's promise.
    unsafe { real::fdb_transaction_set_read_version(transaction, version) }
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_set(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    value: *const u8,
    value_length: c_int,
) {
    recorder::note(transaction, || Call::Set {
        // SAFETY: the caller's promise.
        key: unsafe { key_of(key, key_length) },
        // SAFETY: the caller's promise.
        value: unsafe { value_of(value, value_length) },
    });
    // SAFETY: the caller's promise.
    unsafe { real::fdb_transaction_set(transaction, key, key_length, value, value_length) }
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_atomic_op(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
    operand: *const u8,
    operand_length: c_int,
    operation: c_int,
) {
    recorder::note(transaction, || Call::Atomic {
        // SAFETY: the caller's promise.
        key: unsafe { key_of(key, key_length) },
        // SAFETY: the caller's promise.
        operand: unsafe { value_of(operand, operand_length) },
        name: atomic_name(operation),
    });
    // SAFETY: the caller's promise.
    unsafe {
        real::fdb_transaction_atomic_op(
            transaction,
            key,
            key_length,
            operand,
            operand_length,
            operation,
        );
    }
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_clear(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
) {
    recorder::note(transaction, || {
        // SAFETY: the caller's promise.
        let begin = unsafe { key_of(key, key_length) };
        let end = Bytes::shortened(&[begin.kept(), &[0]].concat(), KEY_BYTES_MAX);
        Call::Clear {
            range: Range { begin, end },
        }
    });
    // SAFETY: the caller's promise.
    unsafe { real::fdb_transaction_clear(transaction, key, key_length) }
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_clear_range(
    transaction: *mut FDBTransaction,
    begin: *const u8,
    begin_length: c_int,
    end: *const u8,
    end_length: c_int,
) {
    recorder::note(transaction, || Call::Clear {
        // SAFETY: the caller's promise.
        range: unsafe { range(begin, begin_length, end, end_length) },
    });
    // SAFETY: the caller's promise.
    unsafe {
        real::fdb_transaction_clear_range(transaction, begin, begin_length, end, end_length);
    }
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_add_conflict_range(
    transaction: *mut FDBTransaction,
    begin: *const u8,
    begin_length: c_int,
    end: *const u8,
    end_length: c_int,
    kind: c_int,
) -> c_int {
    recorder::note(transaction, || Call::AddConflictRange {
        // SAFETY: the caller's promise.
        range: unsafe { range(begin, begin_length, end, end_length) },
        write: kind == WRITE_CONFLICT,
    });
    // SAFETY: the caller's promise.
    unsafe {
        real::fdb_transaction_add_conflict_range(
            transaction,
            begin,
            begin_length,
            end,
            end_length,
            kind,
        )
    }
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_watch(
    transaction: *mut FDBTransaction,
    key: *const u8,
    key_length: c_int,
) -> *mut FDBFuture {
    let ticket = recorder::note(transaction, || Call::Watch {
        // SAFETY: the caller's promise.
        key: unsafe { key_of(key, key_length) },
    });
    // SAFETY: the caller's promise.
    let future = unsafe { real::fdb_transaction_watch(transaction, key, key_length) };
    awaited(ticket, future)
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_commit(transaction: *mut FDBTransaction) -> *mut FDBFuture {
    let ticket = recorder::note(transaction, || Call::Commit);
    // SAFETY: the caller's promise.
    let future = unsafe { real::fdb_transaction_commit(transaction) };
    awaited(ticket, future)
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_on_error(
    transaction: *mut FDBTransaction,
    error: c_int,
) -> *mut FDBFuture {
    let ticket = recorder::note(transaction, || Call::OnError(error));
    // SAFETY: the caller's promise.
    let future = unsafe { real::fdb_transaction_on_error(transaction, error) };
    awaited(ticket, future)
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_cancel(transaction: *mut FDBTransaction) {
    recorder::note(transaction, || Call::Cancel);
    // SAFETY: the caller's promise.
    unsafe { real::fdb_transaction_cancel(transaction) }
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_reset(transaction: *mut FDBTransaction) {
    recorder::note(transaction, || Call::Reset);
    // SAFETY: the caller's promise.
    unsafe { real::fdb_transaction_reset(transaction) }
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_transaction_destroy(transaction: *mut FDBTransaction) {
    recorder::destroyed(transaction);
    // SAFETY: the caller's promise.
    unsafe { real::fdb_transaction_destroy(transaction) }
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_future_destroy(future: *mut FDBFuture) {
    if let Some(ticket) = recorder::arrived(future) {
        recorder::answer(&ticket, Answer::Dropped, None);
    }
    // SAFETY: the caller's promise.
    unsafe { real::fdb_future_destroy(future) }
}

/// # Safety
///
/// As the C function.
unsafe extern "C" fn fdb_future_get_error(future: *mut FDBFuture) -> c_int {
    // SAFETY: the caller's promise.
    let error = unsafe { real::fdb_future_get_error(future) };
    if error != FUTURE_NOT_SET
        && let Some(ticket) = recorder::arrived(future)
    {
        hear(&ticket, future, error);
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
        _ => Answer::Nothing,
    }
}

fn awaited(ticket: Option<Ticket>, future: *mut FDBFuture) -> *mut FDBFuture {
    if let Some(ticket) = ticket {
        recorder::awaits(future, ticket);
    }
    future
}

/// # Safety
///
/// The pointer is null, or there are `length` bytes.
unsafe fn bytes<'a>(bytes: *const u8, length: c_int) -> &'a [u8] {
    match bytes.is_null() {
        true => &[],
        // SAFETY: the caller's promise.
        false => unsafe { slice::from_raw_parts(bytes, length_of(length)) },
    }
}

fn length_of(length: c_int) -> usize {
    usize::try_from(length).unwrap_or(0)
}

/// # Safety
///
/// As [`bytes`].
unsafe fn key_of(key: *const u8, length: c_int) -> Bytes {
    // SAFETY: the caller's promise.
    Bytes::shortened(unsafe { bytes(key, length) }, KEY_BYTES_MAX)
}

/// # Safety
///
/// As [`bytes`].
unsafe fn value_of(value: *const u8, length: c_int) -> Bytes {
    // SAFETY: the caller's promise.
    Bytes::shortened(unsafe { bytes(value, length) }, VALUE_BYTES_MAX)
}

/// # Safety
///
/// A row of a future that is ready.
unsafe fn row_of(row: &FDBKeyValue) -> (Bytes, Bytes) {
    // The C struct is packed; its fields are copied out of it.
    let (key, key_length) = (row.key, row.key_length);
    let (value, value_length) = (row.value, row.value_length);
    // SAFETY: the caller's promise.
    unsafe { (key_of(key, key_length), value_of(value, value_length)) }
}

/// # Safety
///
/// As [`bytes`].
unsafe fn range(begin: *const u8, begin_length: c_int, end: *const u8, end_length: c_int) -> Range {
    Range {
        // SAFETY: the caller's promise.
        begin: unsafe { key_of(begin, begin_length) },
        // SAFETY: the caller's promise.
        end: unsafe { key_of(end, end_length) },
    }
}

/// # Safety
///
/// As [`bytes`].
unsafe fn selector(key: *const u8, length: c_int, or_equal: c_int, offset: c_int) -> Selector {
    Selector {
        // SAFETY: the caller's promise.
        key: unsafe { key_of(key, length) },
        or_equal: or_equal != 0,
        offset,
    }
}

/// A trace is no place for long keys and values.
const KEY_BYTES_MAX: usize = 1000;
const VALUE_BYTES_MAX: usize = 200;
const ROWS_MAX: usize = 200;
/// The error of a future that is not ready.
const FUTURE_NOT_SET: c_int = 2015;
const WRITE_CONFLICT: c_int = 1;
