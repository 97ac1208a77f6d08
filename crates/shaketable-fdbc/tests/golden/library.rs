//! The C functions behind safe wrappers: one process, one database, and one of two clocks.
//!
//! On the machine's clock the library runs as in any program, on a network thread. On a virtual
//! clock it runs in a simulation of this thread's own, as under a host: time stands still while the
//! player thinks and jumps when it waits, so a timeout of 40 milliseconds is over after 40
//! milliseconds however busy the machine is.

use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_fdbc::*;
use shaketable_kernel::{Address, Kernel, NetworkConfig, ProcessId, ProcessSpec};
use std::cell::RefCell;
use std::ffi::{CStr, c_int};
use std::ptr;
use std::time::{Duration, Instant};

/// The client library with a database.
pub struct Library {
    clock: Clock,
    /// There when the clock is virtual.
    simulation: Option<Simulation>,
    database: Database,
}

/// What decides how long something takes.
#[derive(Clone)]
pub enum Clock {
    Machine,
    Virtual(Kernel),
}

/// A cluster as an ordinary program would have it, in virtual time.
struct Simulation {
    c_api: RefCell<CApi>,
    cluster: Cluster,
    client: ProcessId,
    api_version: i32,
}

/// Selects the API version, once per process.
pub fn select_api_version(api_version: i32) {
    check(fdb_select_api_version_impl(api_version, api_version));
}

impl Library {
    /// Starts the network and opens the embedded database. Once per process, with a selected API
    /// version.
    pub fn on_the_machines_clock() -> Library {
        check(fdb_setup_network());
        #[expect(
            clippy::disallowed_methods,
            reason = "the library wants a network thread with the machine's clock"
        )]
        std::thread::spawn(|| check(fdb_run_network()));
        Library {
            clock: Clock::Machine,
            simulation: None,
            database: Database::create(),
        }
    }

    /// Starts a simulation with a cluster like the embedded one.
    pub fn on_a_virtual_clock(api_version: i32) -> Library {
        let kernel = Kernel::simulation(1);
        kernel.set_network_config(NetworkConfig::instant());
        let cluster = Cluster::start(&kernel, ClusterConfig::single_process(true));
        let client = kernel.add_process(ProcessSpec {
            name: "program".into(),
            address: Address::v4(127, 0, 0, 1, 0),
            ..ProcessSpec::default()
        });
        kernel.boot(client);
        let simulation = Simulation {
            c_api: RefCell::new(CApi::new(&kernel)),
            cluster,
            client,
            api_version,
        };
        let clock = Clock::Virtual(kernel);
        Library {
            database: simulation.lend_database(&clock),
            simulation: Some(simulation),
            clock,
        }
    }

    /// Another handle of the library's database.
    pub fn open_database(&self) -> Database {
        match &self.simulation {
            Some(simulation) => simulation.lend_database(&self.clock),
            None => Database::create(),
        }
    }

    /// A transaction on the library's own database.
    pub fn transaction(&self) -> Transaction {
        self.database.transaction()
    }

    pub fn clock(&self) -> &Clock {
        &self.clock
    }
}

impl Drop for Library {
    fn drop(&mut self) {
        if let Clock::Virtual(kernel) = &self.clock {
            self.simulation = None;
            kernel.shutdown();
        }
    }
}

impl Simulation {
    fn lend_database(&self, clock: &Clock) -> Database {
        let database = self.cluster.open_database(self.client, self.api_version);
        Database {
            handle: self.c_api.borrow_mut().lend_database(database),
            is_lent: true,
            clock: clock.clone(),
        }
    }
}

impl Clock {
    /// Lets time pass.
    pub fn sleep(&self, seconds: f64) {
        self.wait(seconds, || false);
    }

    /// Lets what was called take effect. On the machine's clock the network thread does that by
    /// itself.
    pub fn settle(&self) {
        if let Clock::Virtual(kernel) = self {
            kernel.run_until(kernel.now()).expect(TIME_MOVES);
        }
    }

    /// Waits until `is_over`, but no longer than this; returns whether it is.
    fn wait(&self, seconds: f64, is_over: impl Fn() -> bool) -> bool {
        match self {
            Clock::Machine => {
                #[expect(
                    clippy::disallowed_methods,
                    reason = "the library runs on the machine's clock here"
                )]
                let (clock, sleep) = (Instant::now, std::thread::sleep);
                let end = clock() + Duration::from_secs_f64(seconds);
                let mut pause = Duration::from_micros(20);
                while !is_over() {
                    if clock() > end {
                        return false;
                    }
                    sleep(pause);
                    pause = (pause * 2).min(Duration::from_millis(2));
                }
                true
            }
            Clock::Virtual(kernel) => {
                let end = kernel.now().after(seconds);
                loop {
                    kernel.run_ready().expect(TIME_MOVES);
                    if is_over() {
                        return true;
                    }
                    if kernel.next_timer().is_none_or(|time| time > end) {
                        kernel.run_until(end).expect(TIME_MOVES);
                        return false;
                    }
                    kernel.advance();
                }
            }
        }
    }
}

const TIME_MOVES: &str = "a cluster that is left alone comes to rest";

/// A database handle.
pub struct Database {
    handle: *mut FDBDatabase,
    /// Whether a simulation owns it.
    is_lent: bool,
    clock: Clock,
}

impl Database {
    fn create() -> Database {
        let mut handle = ptr::null_mut();
        // SAFETY: a null path asks for the default, and the place for the handle is ours.
        check(unsafe { fdb_create_database(ptr::null(), &mut handle) });
        Database {
            handle,
            is_lent: false,
            clock: Clock::Machine,
        }
    }

    pub fn transaction(&self) -> Transaction {
        let mut handle = ptr::null_mut();
        // SAFETY: the handle is open, and the place for the transaction is ours.
        check(unsafe { fdb_database_create_transaction(self.handle, &mut handle) });
        Transaction {
            handle,
            clock: self.clock.clone(),
        }
    }

    pub fn set_option(&self, code: i32, value: &[u8]) -> i32 {
        // SAFETY: the handle is open, and the value outlives the call.
        unsafe { fdb_database_set_option(self.handle, code, value.as_ptr(), length(value)) }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if !self.is_lent {
            // SAFETY: the handle is open and used no more.
            unsafe { fdb_database_destroy(self.handle) }
        }
    }
}

/// A key selector.
pub struct Selector<'a>(pub &'a [u8], pub i32, pub i32);

/// The parameters that range reads share.
#[derive(Clone, Copy)]
pub struct RangeOptions {
    pub limit: i32,
    pub target_bytes: i32,
    pub mode: i32,
    pub iteration: i32,
    pub snapshot: i32,
    pub reverse: i32,
}

impl Default for RangeOptions {
    /// Everything, in the largest pieces.
    fn default() -> RangeOptions {
        RangeOptions {
            limit: 0,
            target_bytes: 0,
            mode: -2,
            iteration: 1,
            snapshot: 0,
            reverse: 0,
        }
    }
}

/// A transaction.
pub struct Transaction {
    handle: *mut FDBTransaction,
    clock: Clock,
}

// SAFETY of everything below: the transaction exists until it is dropped, and byte strings outlive
// the calls they are passed to, which copy them.
impl Transaction {
    pub fn set_option(&self, code: i32, value: Option<&[u8]>) -> i32 {
        let (pointer, length) =
            value.map_or((ptr::null(), 0), |value| (value.as_ptr(), length(value)));
        // SAFETY: see above.
        unsafe { fdb_transaction_set_option(self.handle, code, pointer, length) }
    }

    pub fn set(&self, key: &[u8], value: &[u8]) {
        // SAFETY: see above.
        unsafe {
            fdb_transaction_set(
                self.handle,
                key.as_ptr(),
                length(key),
                value.as_ptr(),
                length(value),
            )
        }
    }

    pub fn clear(&self, key: &[u8]) {
        // SAFETY: see above.
        unsafe { fdb_transaction_clear(self.handle, key.as_ptr(), length(key)) }
    }

    pub fn clear_range(&self, begin: &[u8], end: &[u8]) {
        // SAFETY: see above.
        unsafe {
            fdb_transaction_clear_range(
                self.handle,
                begin.as_ptr(),
                length(begin),
                end.as_ptr(),
                length(end),
            )
        }
    }

    pub fn atomic_op(&self, key: &[u8], operand: &[u8], code: i32) {
        // SAFETY: see above.
        unsafe {
            let (key, key_length) = (key.as_ptr(), length(key));
            fdb_transaction_atomic_op(
                self.handle,
                key,
                key_length,
                operand.as_ptr(),
                length(operand),
                code,
            );
        }
    }

    pub fn add_conflict_range(&self, begin: &[u8], end: &[u8], kind: i32) -> i32 {
        // SAFETY: see above.
        unsafe {
            let (begin, begin_length) = (begin.as_ptr(), length(begin));
            fdb_transaction_add_conflict_range(
                self.handle,
                begin,
                begin_length,
                end.as_ptr(),
                length(end),
                kind,
            )
        }
    }

    pub fn get(&self, key: &[u8], snapshot: i32) -> Future {
        // SAFETY: see above.
        self.future(unsafe {
            fdb_transaction_get(self.handle, key.as_ptr(), length(key), snapshot)
        })
    }

    pub fn get_key(&self, Selector(key, or_equal, offset): Selector, snapshot: i32) -> Future {
        // SAFETY: see above.
        self.future(unsafe {
            fdb_transaction_get_key(
                self.handle,
                key.as_ptr(),
                length(key),
                or_equal,
                offset,
                snapshot,
            )
        })
    }

    pub fn get_range(&self, begin: Selector, end: Selector, o: RangeOptions) -> Future {
        // SAFETY: see above.
        self.future(unsafe {
            fdb_transaction_get_range(
                self.handle,
                begin.0.as_ptr(),
                length(begin.0),
                begin.1,
                begin.2,
                end.0.as_ptr(),
                length(end.0),
                end.1,
                end.2,
                o.limit,
                o.target_bytes,
                o.mode,
                o.iteration,
                o.snapshot,
                o.reverse,
            )
        })
    }

    pub fn get_mapped_range(
        &self,
        begin: Selector,
        end: Selector,
        mapper: &[u8],
        o: RangeOptions,
    ) -> Future {
        // SAFETY: see above.
        self.future(unsafe {
            fdb_transaction_get_mapped_range(
                self.handle,
                begin.0.as_ptr(),
                length(begin.0),
                begin.1,
                begin.2,
                end.0.as_ptr(),
                length(end.0),
                end.1,
                end.2,
                mapper.as_ptr(),
                length(mapper),
                o.limit,
                o.target_bytes,
                o.mode,
                o.iteration,
                o.snapshot,
                o.reverse,
            )
        })
    }

    pub fn get_read_version(&self) -> Future {
        // SAFETY: see above.
        self.future(unsafe { fdb_transaction_get_read_version(self.handle) })
    }

    pub fn set_read_version(&self, version: i64) {
        // SAFETY: see above.
        unsafe { fdb_transaction_set_read_version(self.handle, version) }
    }

    pub fn get_committed_version(&self) -> Result<i64, i32> {
        let mut version = 0;
        // SAFETY: see above, and the place for the version is ours.
        match unsafe { fdb_transaction_get_committed_version(self.handle, &mut version) } {
            0 => Ok(version),
            code => Err(code),
        }
    }

    pub fn get_approximate_size(&self) -> Future {
        // SAFETY: see above.
        self.future(unsafe { fdb_transaction_get_approximate_size(self.handle) })
    }

    pub fn get_versionstamp(&self) -> Future {
        // SAFETY: see above.
        self.future(unsafe { fdb_transaction_get_versionstamp(self.handle) })
    }

    pub fn watch(&self, key: &[u8]) -> Future {
        // SAFETY: see above.
        self.future(unsafe { fdb_transaction_watch(self.handle, key.as_ptr(), length(key)) })
    }

    pub fn commit(&self) -> Future {
        // SAFETY: see above.
        self.future(unsafe { fdb_transaction_commit(self.handle) })
    }

    pub fn on_error(&self, code: i32) -> Future {
        // SAFETY: see above.
        self.future(unsafe { fdb_transaction_on_error(self.handle, code) })
    }

    fn future(&self, handle: *mut FDBFuture) -> Future {
        Future {
            handle,
            clock: self.clock.clone(),
        }
    }

    pub fn reset(&self) {
        // SAFETY: see above.
        unsafe { fdb_transaction_reset(self.handle) }
    }

    pub fn cancel(&self) {
        // SAFETY: see above.
        unsafe { fdb_transaction_cancel(self.handle) }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        // SAFETY: the transaction exists and is used no more.
        unsafe { fdb_transaction_destroy(self.handle) }
    }
}

/// Rows of a range.
pub type Rows = Vec<(Vec<u8>, Vec<u8>)>;
/// Rows of a mapped range, each with its secondary rows.
pub type MappedRows = Vec<(Vec<u8>, Vec<u8>, Rows)>;

/// A future.
pub struct Future {
    handle: *mut FDBFuture,
    clock: Clock,
}

impl Future {
    /// Waits up to this long for the result, and returns whether it is there.
    pub fn is_ready_within(&self, seconds: f64) -> bool {
        // SAFETY: the future exists until it is dropped.
        self.clock
            .wait(seconds, || unsafe { fdb_future_is_ready(self.handle) } != 0)
    }

    /// The error of a future that is ready, or 0.
    pub fn error(&self) -> i32 {
        // SAFETY: the future exists until it is dropped.
        unsafe { fdb_future_get_error(self.handle) }
    }

    pub fn int64(&self) -> i64 {
        let mut number = 0;
        // SAFETY: the future exists, and the place for the number is ours.
        check(unsafe { fdb_future_get_int64(self.handle, &mut number) });
        number
    }

    pub fn key(&self) -> Vec<u8> {
        let (mut key, mut length) = (ptr::null(), 0);
        // SAFETY: the future exists, and the places for the result are ours.
        check(unsafe { fdb_future_get_key(self.handle, &mut key, &mut length) });
        // SAFETY: the future holds this many bytes there until it is dropped.
        unsafe { copied(key, length) }
    }

    pub fn value(&self) -> Option<Vec<u8>> {
        let (mut present, mut value, mut length) = (0, ptr::null(), 0);
        // SAFETY: the future exists, and the places for the result are ours.
        check(unsafe { fdb_future_get_value(self.handle, &mut present, &mut value, &mut length) });
        // SAFETY: the future holds this many bytes there until it is dropped.
        (present != 0).then(|| unsafe { copied(value, length) })
    }

    /// The rows, and the flag that there are more.
    pub fn rows(&self) -> (Rows, i32) {
        let (mut array, mut count, mut more) = (ptr::null(), 0, 0);
        // SAFETY: the future exists, and the places for the result are ours.
        check(unsafe {
            fdb_future_get_keyvalue_array(self.handle, &mut array, &mut count, &mut more)
        });
        // SAFETY: the future holds this many rows there until it is dropped.
        (unsafe { copied_rows(array, count) }, more)
    }

    /// The rows of a mapped range, and the flag that there are more.
    pub fn mapped_rows(&self) -> (MappedRows, i32) {
        let (mut array, mut count, mut more) = (ptr::null(), 0, 0);
        // SAFETY: the future exists, and the places for the result are ours.
        check(unsafe {
            fdb_future_get_mappedkeyvalue_array(self.handle, &mut array, &mut count, &mut more)
        });
        let row = |index| {
            // SAFETY: the future holds `count` rows there until it is dropped, and every pointer in
            // them is good.
            unsafe {
                let row: FDBMappedKeyValue = *array.add(index);
                (
                    copied(row.key.key, row.key.key_length),
                    copied(row.value.key, row.value.key_length),
                    copied_rows(row.get_range.data, row.get_range.m_size),
                )
            }
        };
        ((0..count as usize).map(row).collect(), more)
    }
}

impl Drop for Future {
    fn drop(&mut self) {
        // SAFETY: the future exists and is used no more.
        unsafe { fdb_future_destroy(self.handle) }
    }
}

/// Whether a retry makes sense after this error.
pub fn is_retryable(code: i32) -> bool {
    fdb_error_predicate(50_000, code) != 0
}

/// Stops the test when a call fails that cannot fail.
fn check(code: i32) {
    if code != 0 {
        // SAFETY: the text is static and ends with a zero.
        let text = unsafe { CStr::from_ptr(fdb_get_error(code)) };
        panic!(
            "expected success of the client library, found {code}: {}",
            text.to_string_lossy()
        );
    }
}

fn length(bytes: &[u8]) -> c_int {
    c_int::try_from(bytes.len()).expect("keys and values are short")
}

/// # Safety
/// There must be `length` bytes at `pointer`.
unsafe fn copied(pointer: *const u8, length: c_int) -> Vec<u8> {
    if length == 0 {
        return Vec::new();
    }
    // SAFETY: the caller's promise.
    unsafe { std::slice::from_raw_parts(pointer, length as usize) }.to_vec()
}

/// # Safety
/// There must be `count` rows at `array`.
unsafe fn copied_rows(array: *const FDBKeyValue, count: c_int) -> Rows {
    let row = |index| {
        // SAFETY: the caller's promise; rows are packed, so each is read as a whole.
        unsafe {
            let row = ptr::read_unaligned(array.add(index));
            (
                copied(row.key, row.key_length),
                copied(row.value, row.value_length),
            )
        }
    };
    (0..count as usize).map(row).collect()
}
