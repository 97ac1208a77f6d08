//! The life of a future, through the C functions, on a kernel that the test runs itself.

use shaketable_cluster::error::Error;
use shaketable_fdbc::*;
use shaketable_kernel::{Completion, Kernel, ProcessId, ProcessSpec};
use std::cell::RefCell;
use std::ffi::c_void;
use std::future::poll_fn;
use std::ptr::{null, null_mut};
use std::rc::Rc;

struct Fixture {
    kernel: Kernel,
    c_api: CApi,
    process: ProcessId,
}

impl Fixture {
    fn new() -> Fixture {
        let kernel = Kernel::simulation(1);
        let process = kernel.add_process(ProcessSpec::default());
        Fixture {
            c_api: CApi::new(&kernel),
            kernel,
            process,
        }
    }

    /// A future that stays pending until the returned function is called with its outcome.
    fn promise(&self) -> (*mut FDBFuture, impl FnOnce(Result<(), Error>) + 'static) {
        let outcome = Rc::new(Completion::default());
        let awaited = outcome.clone();
        let awaited = poll_fn(move |context| awaited.poll(context));
        let future = self.c_api.future(self.process, Ask::Delay(0.0), awaited);
        (future, move |result| assert!(outcome.complete(result)))
    }

    fn run(&self) {
        self.kernel.run_ready().unwrap();
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.kernel.shutdown();
    }
}

/// What callbacks have seen: their name and the error of the future at that moment.
type Log = Rc<RefCell<Vec<(u32, i32)>>>;

unsafe extern "C" fn record(future: *mut FDBFuture, parameter: *mut c_void) {
    // SAFETY: `listen` leaked exactly one such box into the parameter, and the library promises one
    // call.
    let (log, name) = *unsafe { Box::from_raw(parameter.cast::<(Log, u32)>()) };
    // SAFETY: the future is alive during its callback.
    let (ready, error) = unsafe { (fdb_future_is_ready(future), fdb_future_get_error(future)) };
    assert_eq!(ready, 1);
    log.borrow_mut().push((name, error));
}

fn listen(future: *mut FDBFuture, log: &Log, name: u32) {
    let parameter = Box::into_raw(Box::new((log.clone(), name)));
    // SAFETY: the handle is alive; the callback takes the box.
    let code = unsafe { fdb_future_set_callback(future, Some(record), parameter.cast()) };
    assert_eq!(code, 0);
}

fn error(future: *mut FDBFuture) -> i32 {
    // SAFETY: tests pass handles that are alive.
    unsafe { fdb_future_get_error(future) }
}

fn destroy(future: *mut FDBFuture) {
    // SAFETY: tests destroy each handle once.
    unsafe { fdb_future_destroy(future) }
}

#[test]
fn callbacks_run_once_and_the_last_registered_first() {
    let fixture = Fixture::new();
    let (future, keep) = fixture.promise();
    let log = Log::default();
    for name in 1..=3 {
        listen(future, &log, name);
    }
    fixture.run();
    assert_eq!(error(future), Error::FUTURE_NOT_SET.0);
    assert!(log.borrow().is_empty());
    keep(Ok(()));
    fixture.run();
    assert_eq!(*log.borrow(), [(3, 0), (2, 0), (1, 0)]);
    listen(future, &log, 4);
    assert_eq!(
        log.borrow().last(),
        Some(&(4, 0)),
        "a ready future calls at once"
    );
    destroy(future);
    fixture.run();
    assert_eq!(log.borrow().len(), 4);
}

#[test]
fn a_destroyed_pending_future_still_calls_back_later_with_1101() {
    let fixture = Fixture::new();
    let (future, _keep) = fixture.promise();
    let log = Log::default();
    listen(future, &log, 1);
    destroy(future);
    assert!(log.borrow().is_empty(), "not inside the call");
    fixture.run();
    assert_eq!(*log.borrow(), [(1, Error::OPERATION_CANCELLED.0)]);
}

#[test]
fn cancelling_ends_a_pending_future_and_leaves_a_ready_one_alone() {
    let fixture = Fixture::new();
    let (pending, _keep) = fixture.promise();
    let (ready, keep) = fixture.promise();
    keep(Ok(()));
    fixture.run();
    // SAFETY: both handles are alive.
    unsafe {
        fdb_future_cancel(pending);
        fdb_future_cancel(ready);
        assert_eq!(fdb_future_is_ready(pending), 0, "not inside the call");
    }
    fixture.run();
    assert_eq!(error(pending), Error::OPERATION_CANCELLED.0);
    assert_eq!(error(ready), 0);
    destroy(pending);
    destroy(ready);
}

#[test]
fn a_result_and_a_cancellation_at_the_same_moment_give_one_callback() {
    let fixture = Fixture::new();
    let (future, keep) = fixture.promise();
    let log = Log::default();
    listen(future, &log, 1);
    fixture.run();
    keep(Err(Error::NOT_COMMITTED));
    // SAFETY: the handle is alive.
    unsafe { fdb_future_cancel(future) };
    fixture.run();
    assert_eq!(*log.borrow(), [(1, error(future))]);
    destroy(future);
}

unsafe extern "C" fn destroy_it(future: *mut FDBFuture, parameter: *mut c_void) {
    // SAFETY: the test gave the address of its counter and lets the callback destroy the future.
    unsafe {
        *parameter.cast::<u32>() += 1;
        fdb_future_destroy(future);
    }
}

#[test]
fn a_callback_may_destroy_its_own_future() {
    let fixture = Fixture::new();
    let (future, keep) = fixture.promise();
    let mut calls = 0_u32;
    let parameter: *mut u32 = &mut calls;
    // SAFETY: handle and counter outlive the calls.
    unsafe { fdb_future_set_callback(future, Some(destroy_it), parameter.cast()) };
    keep(Ok(()));
    fixture.run();
    assert_eq!(calls, 1);
    let (future, keep) = fixture.promise();
    keep(Ok(()));
    fixture.run();
    // SAFETY: as above; the future is ready, so the callback runs and destroys it inside this call.
    unsafe { fdb_future_set_callback(future, Some(destroy_it), parameter.cast()) };
    assert_eq!(calls, 2);
}

#[test]
fn waiting_on_the_kernels_own_thread_is_an_error_unless_the_future_is_ready() {
    let fixture = Fixture::new();
    let (future, keep) = fixture.promise();
    // SAFETY: the handle is alive.
    let blocked = || unsafe { fdb_future_block_until_ready(future) };
    assert_eq!(blocked(), Error::BLOCKED_FROM_NETWORK_THREAD.0);
    keep(Err(Error::TIMED_OUT));
    fixture.run();
    assert_eq!(blocked(), 0);
    assert_eq!(error(future), Error::TIMED_OUT.0);
    destroy(future);
}

#[test]
fn a_getter_of_another_type_is_an_invalid_operation() {
    let fixture = Fixture::new();
    let (future, keep) = fixture.promise();
    let mut number = 0;
    // SAFETY: the handle is alive and the number writable.
    let mut read = || unsafe { fdb_future_get_int64(future, &mut number) };
    assert_eq!(read(), Error::FUTURE_NOT_SET.0);
    keep(Ok(()));
    fixture.run();
    assert_eq!(read(), Error::CLIENT_INVALID_OPERATION.0);
    destroy(future);
}

#[test]
fn handles_outlive_the_c_api_and_can_be_destroyed_on_any_thread() {
    let fixture = Fixture::new();
    let (future, _keep) = fixture.promise();
    fixture.run();
    drop(fixture);
    assert_eq!(error(future), Error::FUTURE_NOT_SET.0);
    let address = future as usize;
    std::thread::scope(|scope| {
        scope.spawn(move || destroy(address as *mut FDBFuture));
    });
}

#[test]
fn what_makes_no_sense_here_is_refused_through_the_future_or_the_result() {
    // SAFETY: refusing functions do not look at their arguments; the handles they return are
    // destroyed once.
    unsafe {
        let future = fdb_database_blobbify_range(null_mut(), null(), 0, null(), 0);
        assert_eq!(fdb_future_is_ready(future), 1);
        assert_eq!(fdb_future_get_error(future), Error::UNSUPPORTED_OPERATION.0);
        assert_eq!(
            fdb_future_get_keyrange_array(future, null_mut(), null_mut()),
            Error::UNSUPPORTED_OPERATION.0
        );
        fdb_future_destroy(future);
        let result = fdb_readbg_parse_snapshot_file(null(), 0, null(), null());
        assert_eq!(
            fdb_result_get_keyvalue_array(result, null_mut(), null_mut(), null_mut()),
            Error::UNSUPPORTED_OPERATION.0
        );
        fdb_result_destroy(result);
    }
}
