//! The C API by random calls, against a model.
//!
//! A few transactions of one database live side by side and are used in any order. After each
//! call the answer must be the one of the model: a sorted map, a copy of it for each transaction
//! that has begun to read, and the list of what each transaction wrote. A commit must fail when
//! another one has written a key that the transaction read, and must not fail when nothing was
//! written at all.
//!
//! Where FoundationDB's own client is no plain map (docs/fidelity.md has the list), the calls are
//! made, but their answers are not judged: the recorded answers of a real one do that.

use crate::model::{self, Atomic, Key, Map, Selector, Write};
use arbitrary::{Arbitrary, Result, Unstructured};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_fdbc::*;
use shaketable_kernel::{Kernel, ProcessSpec};
use std::ffi::c_int;
use std::ptr::{null, null_mut};

/// How many transactions live side by side.
const SLOTS: usize = 3;
/// More simulated steps than any operation takes.
const STEPS_MAX: usize = 1_000_000;

const KEY_OUTSIDE_LEGAL_RANGE: i32 = 2004;
const INVERTED_RANGE: i32 = 2005;
const EXACT_MODE_WITHOUT_LIMITS: i32 = 2210;
const KEY_TOO_LARGE: i32 = 2102;
const VALUE_TOO_LARGE: i32 = 2103;
const NOT_COMMITTED: i32 = 1020;

/// One thing that a program does.
#[derive(Debug, Arbitrary)]
pub enum Call {
    /// Reads a key.
    Get(Slot, Key, bool),
    /// Finds a key.
    GetKey(Slot, Selector, bool),
    /// Reads rows.
    GetRange(Slot, Scan),
    /// Writes.
    Write(Slot, Write),
    /// Writes something that is not allowed.
    Refused(Slot, Refused),
    /// Reads outside what an ordinary transaction may see.
    GetOutside(Slot),
    /// Begins to read and gives the future up at once.
    Abandon(Slot, Key),
    /// Starts again.
    Reset(Slot),
    /// Commits, and starts again.
    Commit(Slot),
}

/// Which transaction.
#[derive(Debug, Clone, Copy)]
pub struct Slot(usize);

impl<'a> Arbitrary<'a> for Slot {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Slot> {
        Ok(Slot(u.choose_index(SLOTS)?))
    }
}

/// A range read.
#[derive(Debug)]
pub struct Scan {
    begin: Selector,
    end: Selector,
    limit: i32,
    target_bytes: i32,
    mode: i32,
    iteration: i32,
    snapshot: bool,
    reverse: bool,
}

impl<'a> Arbitrary<'a> for Scan {
    fn arbitrary(u: &mut Unstructured<'a>) -> Result<Scan> {
        Ok(Scan {
            begin: u.arbitrary()?,
            end: u.arbitrary()?,
            limit: *u.choose(&[0, 0, 1, 2, 3, 5, 100])?,
            target_bytes: *u.choose(&[0, 0, 0, 1, 10, 40])?,
            mode: u.int_in_range(-2..=4)?,
            iteration: u.int_in_range(1..=4)?,
            snapshot: u.arbitrary()?,
            reverse: u.arbitrary()?,
        })
    }
}

/// A write that a transaction remembers as an error.
#[derive(Debug, Clone, Copy, Arbitrary)]
#[allow(missing_docs, reason = "the names say what is wrong")]
pub enum Refused {
    LongKey,
    LongValue,
    SystemKey,
    InvertedRange,
}

/// See the module.
pub fn run(u: &mut Unstructured) -> Result<()> {
    let seed = u.arbitrary::<u16>()?;
    let mut calls = Vec::new();
    // The last bytes may be too few for a call.
    while !u.is_empty()
        && let Ok(call) = u.arbitrary()
    {
        // After a refused write there is little left to learn from a transaction.
        let refused = match &call {
            Call::Refused(..) => true,
            Call::Write(_, Write::ClearRange(begin, end)) => begin > end,
            _ => false,
        };
        if !refused || u.ratio(1, 8)? {
            calls.push(call);
        }
    }
    check(seed, &calls);
    Ok(())
}

/// Makes the calls in a simulation of that seed. When an answer differs, leaves out every call
/// that the difference does not need before it panics.
pub fn check(seed: u16, calls: &[Call]) {
    let mut needed: Vec<&Call> = calls.iter().collect();
    let Some(mut difference) = first_difference(seed, &mut needed) else {
        return;
    };
    // The last call is the one that differs.
    let mut index = needed.len() - 1;
    while index > 0 {
        index -= 1;
        let mut fewer = needed.clone();
        fewer.remove(index);
        if let Some(other) = first_difference(seed, &mut fewer) {
            (needed, difference) = (fewer, other);
            index = index.min(needed.len() - 1);
        }
    }
    let calls: String = needed.iter().map(|call| format!("  {call:?}\n")).collect();
    panic!("seed {seed}:\n{calls}{difference}");
}

/// Makes calls up to the first whose answer differs, and forgets the others.
fn first_difference(seed: u16, calls: &mut Vec<&Call>) -> Option<String> {
    let mut world = World::new(seed);
    for (index, call) in calls.iter().enumerate() {
        if let Err(difference) = world.make(call) {
            calls.truncate(index + 1);
            return Some(difference);
        }
    }
    None
}

/// A simulated cluster, its C handles, and the model.
struct World {
    kernel: Kernel,
    database: *mut FDBDatabase,
    slots: [Transaction; SLOTS],
    /// What is committed.
    committed: Map,
    /// What each commit wrote, in order.
    commits: Vec<Vec<Write>>,
    committed_version: i64,
    // Dropped after the handles above are of no more use.
    _c_api: CApi,
}

/// A transaction, and what the model knows of it.
struct Transaction {
    handle: *mut FDBTransaction,
    /// The database as of its read version, and how many commits that contains.
    snapshot: Option<(Map, usize)>,
    writes: Vec<Write>,
    /// The keys it has read from the database, to conflict on.
    reads: Vec<Vec<u8>>,
    has_read_for_conflicts: bool,
    /// The error that it will report.
    refused: Option<i32>,
}

/// What our answer was and what it should be.
type Checked = std::result::Result<(), String>;

fn same<T: PartialEq + std::fmt::Debug>(found: T, expected: T) -> Checked {
    if found == expected {
        Ok(())
    } else {
        Err(format!("expected {expected:?}, found {found:?}"))
    }
}

impl World {
    fn new(seed: u16) -> World {
        let kernel = Kernel::simulation(u64::from(seed));
        let cluster = Cluster::start(&kernel, ClusterConfig::single_process(false));
        let process = kernel.add_process(ProcessSpec::default());
        kernel.boot(process);
        let mut c_api = CApi::new(&kernel);
        let database = c_api.lend_database(cluster.open_database(process, 740));
        World {
            slots: std::array::from_fn(|_| Transaction::new(database)),
            kernel,
            database,
            committed: Map::new(),
            commits: Vec::new(),
            committed_version: 0,
            _c_api: c_api,
        }
    }

    fn make(&mut self, call: &Call) -> Checked {
        match call {
            Call::Get(slot, key, snapshot) => self.get(slot.0, key, *snapshot),
            Call::GetKey(slot, selector, snapshot) => self.get_key(slot.0, selector, *snapshot),
            Call::GetRange(slot, scan) => self.get_range(slot.0, scan),
            Call::Write(slot, write) => {
                self.write(slot.0, write);
                Ok(())
            }
            Call::Refused(slot, refused) => {
                self.refused(slot.0, *refused);
                Ok(())
            }
            Call::GetOutside(slot) => self.get_outside(slot.0),
            Call::Abandon(slot, key) => {
                self.abandon(slot.0, key);
                Ok(())
            }
            Call::Reset(slot) => {
                let slot = &mut self.slots[slot.0];
                // SAFETY: the handle is alive.
                unsafe { fdb_transaction_reset(slot.handle) };
                slot.forget();
                Ok(())
            }
            Call::Commit(slot) => self.commit(slot.0),
        }
    }

    /// Lets time pass until the future is ready, and returns its error.
    fn wait(&self, future: &Future) -> i32 {
        for _ in 0..STEPS_MAX {
            // SAFETY: the handle is alive.
            if unsafe { fdb_future_is_ready(future.0) } != 0 {
                // SAFETY: the handle is alive.
                return unsafe { fdb_future_get_error(future.0) };
            }
            self.kernel.run_ready().expect("time moves");
            self.kernel.advance();
        }
        panic!("an operation does not end");
    }

    /// The database as a transaction sees it. Begins to read, if it has not begun: not every read
    /// does, such as that of an empty range.
    fn view(&mut self, slot: usize) -> std::result::Result<Map, String> {
        if self.slots[slot].snapshot.is_none() {
            // SAFETY: the handle is alive.
            let future =
                Future(unsafe { fdb_transaction_get_read_version(self.slots[slot].handle) });
            same(self.wait(&future), 0)?;
            let mut version = 0;
            // SAFETY: the future is ready and alive, and the number can be written.
            same(unsafe { fdb_future_get_int64(future.0, &mut version) }, 0)?;
            if version < self.committed_version {
                return Err(format!(
                    "reads at {version}, after {}",
                    self.committed_version
                ));
            }
            self.slots[slot].snapshot = Some((self.committed.clone(), self.commits.len()));
        }
        let transaction = &self.slots[slot];
        let snapshot = transaction.snapshot.as_ref();
        let mut view = snapshot.map_or(Map::new(), |(map, _)| map.clone());
        for write in &transaction.writes {
            write.apply(&mut view);
        }
        Ok(view)
    }

    fn get(&mut self, slot: usize, key: &Key, snapshot: bool) -> Checked {
        if self.slots[slot].refused.is_some() {
            return Ok(());
        }
        let expected = self.view(slot)?.get(&key.0).cloned();
        let transaction = &mut self.slots[slot];
        if !snapshot {
            transaction.has_read_for_conflicts = true;
            // A key of its own is read from the transaction, not from the database.
            if !transaction.writes.iter().any(|write| write.touches(&key.0)) {
                transaction.reads.push(key.0.clone());
            }
        }
        // SAFETY: handle and key are alive.
        let future = Future(unsafe {
            let (key, length) = parts(&key.0);
            fdb_transaction_get(transaction.handle, key, length, c_int::from(snapshot))
        });
        same(self.wait(&future), 0)?;
        let (mut present, mut value, mut length) = (0, null(), 0);
        // SAFETY: the future is ready and alive, and so is what it points to; the places can be
        // written.
        let found = unsafe {
            same(
                fdb_future_get_value(future.0, &mut present, &mut value, &mut length),
                0,
            )?;
            (present != 0).then(|| copy(value, length))
        };
        same(found, expected)
    }

    fn get_key(&mut self, slot: usize, selector: &Selector, snapshot: bool) -> Checked {
        if self.slots[slot].refused.is_some() {
            return Ok(());
        }
        let expected = selector.resolve(&self.view(slot)?);
        let transaction = &mut self.slots[slot];
        transaction.has_read_for_conflicts |= !snapshot;
        // SAFETY: handle and key are alive.
        let future = Future(unsafe {
            let (key, length) = parts(&selector.key.0);
            let (or_equal, snapshot) = (c_int::from(selector.or_equal), c_int::from(snapshot));
            let offset = selector.offset;
            fdb_transaction_get_key(transaction.handle, key, length, or_equal, offset, snapshot)
        });
        same(self.wait(&future), 0)?;
        let (mut key, mut length) = (null(), 0);
        // SAFETY: as in `get`.
        let found = unsafe {
            same(fdb_future_get_key(future.0, &mut key, &mut length), 0)?;
            copy(key, length)
        };
        if self.slots[slot].counts_cleared_keys() {
            return Ok(());
        }
        same(Key(found), Key(expected))
    }

    fn get_range(&mut self, slot: usize, scan: &Scan) -> Checked {
        if self.slots[slot].refused.is_some() {
            return Ok(());
        }
        let exact = scan.mode == 0;
        if exact && scan.limit == 0 && scan.target_bytes == 0 {
            let future = self.scan(slot, scan);
            return same(self.wait(&future), EXACT_MODE_WITHOUT_LIMITS);
        }
        let view = self.view(slot)?;
        let range = scan.begin.resolve(&view)..scan.end.resolve(&view);
        let expected = model::rows(&view, range, scan.reverse);
        self.slots[slot].has_read_for_conflicts |= !scan.snapshot;
        let future = self.scan(slot, scan);
        same(self.wait(&future), 0)?;
        let (mut rows, mut count, mut more) = (null(), 0, 0);
        // SAFETY: as in `get`; the rows are packed, so that they are copied out.
        let found: Vec<_> = unsafe {
            same(
                fdb_future_get_keyvalue_array(future.0, &mut rows, &mut count, &mut more),
                0,
            )?;
            (0..count as usize)
                .map(|index| rows.add(index).read_unaligned())
                .map(|row| {
                    (
                        copy(row.key, row.key_length),
                        copy(row.value, row.value_length),
                    )
                })
                .collect()
        };
        let walks = scan.begin.offset != 1 || scan.end.offset != 1;
        let walks_off = scan.reverse && scan.begin.is_before_all(&view);
        if walks && self.slots[slot].counts_cleared_keys() || walks_off {
            return Ok(());
        }
        let limit = match scan.limit {
            0 => usize::MAX,
            limit => limit as usize,
        };
        let is_beginning = expected.starts_with(&found) && found.len() <= limit;
        let may_stop = more != 0 && !found.is_empty() || found.len() == limit;
        let is_whole = found.len() == expected.len();
        let has_all = !exact || scan.target_bytes != 0 || found.len() == limit.min(expected.len());
        if is_beginning && (is_whole || may_stop) && has_all && (more != 0 || is_whole) {
            return Ok(());
        }
        Err(format!(
            "expected {expected:?}, found {found:?} and more = {more}"
        ))
    }

    fn scan(&self, slot: usize, scan: &Scan) -> Future {
        // SAFETY: handle and keys are alive.
        Future(unsafe {
            let (begin, begin_length) = parts(&scan.begin.key.0);
            let (end, end_length) = parts(&scan.end.key.0);
            fdb_transaction_get_range(
                self.slots[slot].handle,
                begin,
                begin_length,
                c_int::from(scan.begin.or_equal),
                scan.begin.offset,
                end,
                end_length,
                c_int::from(scan.end.or_equal),
                scan.end.offset,
                scan.limit,
                scan.target_bytes,
                scan.mode,
                scan.iteration,
                c_int::from(scan.snapshot),
                c_int::from(scan.reverse),
            )
        })
    }

    fn write(&mut self, slot: usize, write: &Write) {
        let transaction = &mut self.slots[slot];
        let handle = transaction.handle;
        // SAFETY: handle, keys and values are alive.
        unsafe {
            match write {
                Write::Set(key, value) => {
                    let ((key, length), (value, value_length)) = (parts(&key.0), parts(&value.0));
                    fdb_transaction_set(handle, key, length, value, value_length);
                }
                Write::Clear(key) => {
                    let (key, length) = parts(&key.0);
                    fdb_transaction_clear(handle, key, length);
                }
                Write::ClearRange(begin, end) => {
                    if begin > end {
                        transaction.refused.get_or_insert(INVERTED_RANGE);
                    }
                    let ((begin, length), (end, end_length)) = (parts(&begin.0), parts(&end.0));
                    fdb_transaction_clear_range(handle, begin, length, end, end_length);
                }
                Write::Atomic(operation, key, operand) => {
                    let ((key, length), (operand, operand_length)) =
                        (parts(&key.0), parts(&operand.0));
                    let operation = *operation as c_int;
                    fdb_transaction_atomic_op(
                        handle,
                        key,
                        length,
                        operand,
                        operand_length,
                        operation,
                    );
                }
            }
        }
        // To clear nothing is not a write: a transaction that does no more than that has nothing
        // to commit.
        if !matches!(write, Write::ClearRange(begin, end) if begin == end) {
            transaction.writes.push(write.clone());
        }
    }

    fn refused(&mut self, slot: usize, refused: Refused) {
        let transaction = &mut self.slots[slot];
        let handle = transaction.handle;
        let long = vec![b'x'; 100_001];
        // SAFETY: handle, keys and values are alive.
        let code = unsafe {
            match refused {
                Refused::LongKey => {
                    fdb_transaction_set(handle, long.as_ptr(), 10_001, long.as_ptr(), 1);
                    KEY_TOO_LARGE
                }
                Refused::LongValue => {
                    fdb_transaction_set(handle, long.as_ptr(), 1, long.as_ptr(), 100_001);
                    VALUE_TOO_LARGE
                }
                Refused::SystemKey => {
                    fdb_transaction_set(handle, b"\xffx".as_ptr(), 2, long.as_ptr(), 1);
                    KEY_OUTSIDE_LEGAL_RANGE
                }
                Refused::InvertedRange => {
                    fdb_transaction_clear_range(handle, b"b".as_ptr(), 1, b"a".as_ptr(), 1);
                    INVERTED_RANGE
                }
            }
        };
        transaction.refused.get_or_insert(code);
    }

    fn get_outside(&mut self, slot: usize) -> Checked {
        if self.slots[slot].refused.is_some() {
            return Ok(());
        }
        // SAFETY: handle and key are alive.
        let future = Future(unsafe {
            fdb_transaction_get(self.slots[slot].handle, b"\xffx".as_ptr(), 2, 0)
        });
        same(self.wait(&future), KEY_OUTSIDE_LEGAL_RANGE)
    }

    fn abandon(&mut self, slot: usize, key: &Key) {
        // Whether it had begun to read when it was given up is not for the model to know.
        if self.slots[slot].refused.is_some() || self.slots[slot].snapshot.is_none() {
            return;
        }
        // SAFETY: handle and key are alive.
        let future = Future(unsafe {
            let (key, length) = parts(&key.0);
            fdb_transaction_get(self.slots[slot].handle, key, length, 1)
        });
        drop(future);
    }

    fn commit(&mut self, slot: usize) -> Checked {
        let handle = self.slots[slot].handle;
        // SAFETY: the handle is alive.
        let future = Future(unsafe { fdb_transaction_commit(handle) });
        let found = self.wait(&future);
        drop(future);
        let transaction = &self.slots[slot];
        let since = transaction
            .snapshot
            .as_ref()
            .map_or(self.commits.len(), |(_, count)| *count);
        let others = &self.commits[since..];
        let overtaken = transaction.reads.iter().any(|key| {
            let mut writes = others.iter().flatten();
            writes.any(|write| write.touches(key))
        });
        let writes = !transaction.writes.is_empty();
        if let Some(refused) = transaction.refused {
            same(found, refused)?;
        } else if writes && overtaken {
            same(found, NOT_COMMITTED)?;
        } else if !writes || others.is_empty() || !transaction.has_read_for_conflicts {
            same(found, 0)?;
        } else if found != 0 {
            same(found, NOT_COMMITTED)?;
        }
        if found == 0 && writes {
            for write in &transaction.writes {
                write.apply(&mut self.committed);
            }
            self.commits.push(transaction.writes.clone());
            let mut version = 0;
            // SAFETY: the handle is alive and the number can be written.
            unsafe { fdb_transaction_get_committed_version(handle, &mut version) };
            if version <= self.committed_version {
                return Err(format!(
                    "committed at {version}, after {}",
                    self.committed_version
                ));
            }
            self.committed_version = version;
        }
        self.slots[slot] = Transaction::new(self.database);
        Ok(())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kernel.shutdown();
    }
}

impl Transaction {
    fn new(database: *mut FDBDatabase) -> Transaction {
        let mut handle = null_mut();
        // SAFETY: the database is alive and the place can be written.
        let code = unsafe { fdb_database_create_transaction(database, &mut handle) };
        assert_eq!(code, 0);
        Transaction {
            handle,
            snapshot: None,
            writes: Vec::new(),
            reads: Vec::new(),
            has_read_for_conflicts: false,
            refused: None,
        }
    }

    /// A selector counts a key that the same transaction cleared by comparing.
    fn counts_cleared_keys(&self) -> bool {
        let mut writes = self.writes.iter();
        writes.any(|write| matches!(write, Write::Atomic(Atomic::CompareAndClear, ..)))
    }

    fn forget(&mut self) {
        self.snapshot = None;
        self.writes.clear();
        self.reads.clear();
        self.has_read_for_conflicts = false;
        self.refused = None;
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // SAFETY: created in `new` and destroyed here alone.
        unsafe { fdb_transaction_destroy(self.handle) };
    }
}

/// A future of the library; destroyed when dropped.
struct Future(*mut FDBFuture);

impl Drop for Future {
    fn drop(&mut self) {
        // SAFETY: each is made of a handle that is not destroyed elsewhere.
        unsafe { fdb_future_destroy(self.0) };
    }
}

fn parts(bytes: &[u8]) -> (*const u8, c_int) {
    (bytes.as_ptr(), bytes.len() as c_int)
}

/// # Safety
/// That many bytes are there.
unsafe fn copy(bytes: *const u8, length: c_int) -> Vec<u8> {
    // SAFETY: as the caller promises.
    unsafe { std::slice::from_raw_parts(bytes, length as usize) }.to_vec()
}
