//! How many get + set + commit transactions a second a simulation makes through the C ABI, and what part of that time the
//! ABI itself takes: the same transactions are made once through the functions of `fdb_c.h` and once on the client directly.
//!
//! `cargo bench -p shaketable-fdbc --bench throughput`

#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures the machine's time"
)]

use shaketable_cluster::client::Database;
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_fdbc::*;
use shaketable_kernel::{Kernel, Priority, ProcessId, ProcessSpec};
use std::cell::Cell;
use std::ffi::c_void;
use std::rc::Rc;
use std::time::Instant;

const TRANSACTIONS: u32 = 100_000;
const CLIENTS: u32 = 8;

struct World {
    kernel: Kernel,
    database: Database,
    process: ProcessId,
}

fn world() -> World {
    let kernel = Kernel::simulation(1);
    let cluster = Cluster::start(&kernel, ClusterConfig::single_process(true));
    let process = kernel.add_process(ProcessSpec::default());
    kernel.boot(process);
    let database = cluster.open_database(process, 740);
    World {
        kernel,
        database,
        process,
    }
}

/// A key that no other client touches.
fn key(client: u32, number: u32) -> [u8; 8] {
    (u64::from(client) << 32 | u64::from(number)).to_be_bytes()
}

/// One client: a state machine that its callbacks drive, as an application's executor would.
struct Client {
    database: *mut FDBDatabase,
    transaction: *mut FDBTransaction,
    number: u32,
    key: [u8; 8],
    left: u32,
    reading: bool,
    done: Rc<Cell<u32>>,
}

impl Client {
    fn begin(this: *mut Client) {
        // SAFETY: the client lives until it is done; handles are used before they are destroyed.
        unsafe {
            let client = &mut *this;
            fdb_database_create_transaction(client.database, &mut client.transaction);
            client.key = key(client.number, client.left);
            client.reading = true;
            let read = fdb_transaction_get(client.transaction, client.key.as_ptr(), 8, 0);
            fdb_future_set_callback(read, Some(Client::next), this.cast());
        }
    }

    unsafe extern "C" fn next(future: *mut FDBFuture, parameter: *mut c_void) {
        // SAFETY: as above; the future is alive during its callback and destroyed here.
        unsafe {
            let client = &mut *parameter.cast::<Client>();
            assert_eq!(fdb_future_get_error(future), 0);
            fdb_future_destroy(future);
            if client.reading {
                client.reading = false;
                let key = client.key.as_ptr();
                fdb_transaction_set(client.transaction, key, 8, key, 8);
                let commit = fdb_transaction_commit(client.transaction);
                fdb_future_set_callback(commit, Some(Client::next), parameter);
                return;
            }
            fdb_transaction_destroy(client.transaction);
            client.left -= 1;
            if client.left > 0 {
                Client::begin(parameter.cast());
            } else {
                client.done.set(client.done.get() + 1);
            }
        }
    }
}

fn through_the_abi() -> f64 {
    let world = world();
    let mut border = Border::new(&world.kernel);
    let database = border.lend_database(world.database.clone());
    let done = Rc::new(Cell::new(0));
    let mut clients: Vec<Client> = (0..CLIENTS)
        .map(|number| Client {
            number,
            database,
            transaction: std::ptr::null_mut(),
            key: [0; 8],
            left: TRANSACTIONS / CLIENTS,
            reading: false,
            done: done.clone(),
        })
        .collect();
    let start = Instant::now();
    for client in &mut clients {
        Client::begin(client);
    }
    while done.get() < CLIENTS {
        world.kernel.run_ready().expect("time moves");
        world.kernel.advance();
    }
    let seconds = start.elapsed().as_secs_f64();
    drop(border);
    world.kernel.shutdown();
    seconds
}

fn on_the_client() -> f64 {
    let world = world();
    let start = Instant::now();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| {
            let database = world.database.clone();
            let client = async move {
                for left in (1..=TRANSACTIONS / CLIENTS).rev() {
                    let transaction = database.create_transaction();
                    let key = bytes::Bytes::copy_from_slice(&key(number, left));
                    transaction.get(key.clone(), false).await.expect("reads");
                    transaction.set(key.clone(), key);
                    transaction.commit().await.expect("commits");
                }
            };
            world
                .kernel
                .spawn(world.process, Priority::DefaultDelay, client)
        })
        .collect();
    world
        .kernel
        .block_on(async {
            for client in clients {
                client.await;
            }
        })
        .expect("the clients end");
    let seconds = start.elapsed().as_secs_f64();
    world.kernel.shutdown();
    seconds
}

fn main() {
    let best = |run: fn() -> f64| (0..5).map(|_| run()).fold(f64::INFINITY, f64::min);
    let (client, abi) = (best(on_the_client), best(through_the_abi));
    let rate = |seconds: f64| f64::from(TRANSACTIONS) / seconds;
    println!(
        "on the client     {:8.0} transactions a second",
        rate(client)
    );
    println!("through the ABI   {:8.0} transactions a second", rate(abi));
    println!("the ABI's part    {:8.1} %", (1.0 - client / abi) * 100.0);
}
