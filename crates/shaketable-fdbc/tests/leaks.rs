//! A universe that has ended leaves nothing in memory.
//!
//! A program may run thousands of simulations one after another. Objects of a simulation hold one
//! another, so one reference too many in a circle keeps a whole cluster. This test has a program of
//! its own, because it counts every byte of the heap, and counts by thread, because the test runner
//! allocates on another one whenever it gets to it.

use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_fdbc::*;
use shaketable_kernel::{Kernel, ProcessSpec};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    /// What this thread has taken and not given back. It has no destructor, so that it can be
    /// counted until the thread is gone.
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
}

fn count(change: impl FnOnce(usize) -> usize) {
    LIVE_BYTES.with(|live| live.set(change(live.get())));
}

// SAFETY: everything is left to the system's allocator; the count does not touch memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(|live| live.wrapping_add(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(|live| live.wrapping_sub(layout.size()));
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs a universe to its end and leaves all sorts of things unfinished in it.
fn run_a_universe() {
    let kernel = Kernel::simulation(1);
    let cluster = Cluster::start(&kernel, ClusterConfig::single_process(false));
    let process = kernel.add_process(ProcessSpec::default());
    kernel.boot(process);
    let mut c_api = CApi::new(&kernel);
    let database = c_api.lend_database(cluster.open_database(process, 740));
    let sleeping = kernel.clone();
    let delay = c_api.future(process, Ask::Delay(0.0), async move {
        sleeping.sleep(1e6).await;
        Ok(())
    });
    let key = b"key".as_ptr();
    // SAFETY: handles come from the library and are destroyed once; keys are literals.
    unsafe {
        let mut transaction = std::ptr::null_mut();
        fdb_database_create_transaction(database, &mut transaction);
        let watch = fdb_transaction_watch(transaction, key, 3);
        fdb_transaction_set(transaction, key, 2, key, 3);
        let commit = fdb_transaction_commit(transaction);
        while fdb_future_is_ready(commit) == 0 {
            kernel.run_ready().expect("time moves");
            kernel.advance();
        }
        assert_eq!(fdb_future_get_error(commit), 0);
        fdb_transaction_reset(transaction);
        let read = fdb_transaction_get(transaction, key, 2, 0);
        drop(c_api);
        kernel.shutdown();
        for future in [watch, commit, read, delay] {
            fdb_future_destroy(future);
        }
        fdb_transaction_destroy(transaction);
    }
}

#[test]
fn a_universe_that_has_ended_leaves_nothing_in_memory() {
    // The first one also fills what the process keeps until it ends.
    run_a_universe();
    let before = LIVE_BYTES.get();
    for _ in 0..3 {
        run_a_universe();
    }
    let after = LIVE_BYTES.get();
    assert_eq!(after.wrapping_sub(before), 0);
}
