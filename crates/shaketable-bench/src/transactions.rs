//! Transactions in a simulation without faults, made by the published crate `foundationdb` through
//! the C ABI: the way a workload makes them, without a test file.

use foundationdb::api::FdbApiBuilder;
use foundationdb::future::CUSTOM_EXECUTOR_HOOK;
use foundationdb::options::StreamingMode;
use foundationdb::{Database, FdbError, RangeOption, Transaction};
use shaketable::{fdb_spawn, poll_pending_tasks};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_fdbc::CApi;
use shaketable_kernel::{Address, Kernel, ProcessSpec};
use std::cell::Cell;
use std::future::Future;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::Once;

/// Where transactions are made.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// A cluster of one process on a network without latency, as in an ordinary program.
    OneProcess,
    /// A cluster of several machines on a simulated network, as a test file without faults draws
    /// it.
    Machines,
}

/// A simulation with a database, and the executor of the crate `shaketable` on top.
pub struct World {
    kernel: Kernel,
    database: Rc<Database>,
    _c_api: CApi,
}

impl World {
    /// Builds it, and waits until the cluster serves.
    pub fn new(place: Place) -> World {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            shaketable_fdbc::keep_symbols();
            FdbApiBuilder::default()
                .build()
                .expect("no version was chosen before");
            let hook = CUSTOM_EXECUTOR_HOOK.set(poll_pending_tasks);
            assert!(hook.is_ok(), "another executor is there");
        });
        let kernel = Kernel::simulation(1);
        let config = match place {
            Place::OneProcess => ClusterConfig::single_process(true),
            Place::Machines => {
                let options = LayoutOptions {
                    simple_config: true,
                    ..LayoutOptions::default()
                };
                ClusterConfig::simulation(&kernel, &options, false).expect("a layout")
            }
        };
        let cluster = Cluster::start(&kernel, config);
        let process = kernel.add_process(ProcessSpec {
            name: "client".to_owned(),
            address: Address::v4(2, 0, 0, 1, 1),
            ..ProcessSpec::default()
        });
        let mut c_api = CApi::new(&kernel);
        let handle = c_api.lend_database(cluster.open_database(process, 740));
        let handle = NonNull::new(handle.cast()).expect("a handle is never null");
        // SAFETY: the handle is lent for as long as the `CApi` lives, which is as long as this
        // value.
        let database = Rc::new(unsafe { Database::new_from_pointer(handle) });
        let world = World {
            kernel,
            database,
            _c_api: c_api,
        };
        world.each(1, |database, _| async move {
            let transaction = database.create_trx()?;
            transaction.get(b"", false).await.map(drop)
        });
        world
    }

    /// Runs `body` `clients` times at once, each with its number, until all have ended.
    pub fn each<F>(&self, clients: u64, body: impl Fn(Rc<Database>, u64) -> F)
    where
        F: Future<Output = Result<(), FdbError>> + 'static,
    {
        let (begun, ended) = (Rc::new(()), Rc::new(Cell::new(0)));
        for client in 0..clients {
            let (begun, ended) = (begun.clone(), ended.clone());
            let work = body(self.database.clone(), client);
            fdb_spawn(async move {
                let _begun = begun;
                work.await.expect("nothing fails");
                ended.set(ended.get() + 1);
            });
        }
        while Rc::strong_count(&begun) > 1 {
            self.kernel.run_ready().expect("time moves");
            self.kernel.advance();
        }
        assert_eq!(ended.get(), clients, "a task panicked");
    }

    /// Fills the keys that `read_range` and `get` read.
    pub fn fill(&self) {
        self.each(1, |database, _| async move {
            let transaction = database.create_trx()?;
            for number in 0..1000 {
                transaction.set(&key(0, number), b"0123456789abcdef0123456789abcdef");
            }
            commit(transaction).await
        });
    }

    /// Commits transactions, each of which reads a key of its own and sets it: the given number in
    /// each of the clients.
    pub fn get_set_commit(&self, clients: u64, transactions: u64) {
        self.each(clients, |database, client| async move {
            for number in 0..transactions {
                let transaction = database.create_trx()?;
                let key = key(client, number % 1000);
                transaction.get(&key, false).await?;
                transaction.set(&key, &key);
                commit(transaction).await?;
            }
            Ok(())
        });
    }

    /// One transaction that reads one key.
    pub fn get(&self) {
        self.each(1, |database, _| async move {
            let transaction = database.create_trx()?;
            transaction.get(&key(0, 500), false).await.map(drop)
        });
    }

    /// One transaction that sets one key and commits.
    pub fn set_commit(&self) {
        self.each(1, |database, _| async move {
            let transaction = database.create_trx()?;
            transaction.set(&key(0, 500), b"0123456789abcdef0123456789abcdef");
            commit(transaction).await
        });
    }

    /// One transaction that reads a hundred rows.
    pub fn range(&self) {
        self.each(1, |database, _| async move {
            let transaction = database.create_trx()?;
            let (begin, end) = (key(0, 300), key(0, 400));
            let mut range = RangeOption::from((&begin[..], &end[..]));
            range.mode = StreamingMode::WantAll;
            let rows = transaction.get_range(&range, 1, false).await?;
            assert_eq!(rows.len(), 100);
            Ok(())
        });
    }

    /// Two transactions that read and write one key: one of them conflicts, and is tried again.
    pub fn conflict(&self) {
        self.each(1, |database, _| async move {
            let (first, second) = (database.create_trx()?, database.create_trx()?);
            for transaction in [&first, &second] {
                transaction.get(&key(0, 500), false).await?;
                transaction.set(&key(0, 500), b"mine");
            }
            commit(first).await?;
            let refused = second.commit().await.expect_err("a conflict");
            let again = refused.on_error().await?;
            again.get(&key(0, 500), false).await?;
            again.set(&key(0, 500), b"mine");
            commit(again).await
        });
    }

    /// One transaction with this many writes.
    pub fn large(&self, writes: u64) {
        self.each(1, |database, _| async move {
            let transaction = database.create_trx()?;
            for number in 0..writes {
                transaction.set(&key(1, number), b"0123456789abcdef0123456789abcdef");
            }
            commit(transaction).await
        });
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.kernel.shutdown();
    }
}

async fn commit(transaction: Transaction) -> Result<(), FdbError> {
    transaction.commit().await.map(drop).map_err(FdbError::from)
}

/// Sixteen bytes; clients share none.
fn key(client: u64, number: u64) -> [u8; 16] {
    (u128::from(client) << 64 | u128::from(number)).to_be_bytes()
}
