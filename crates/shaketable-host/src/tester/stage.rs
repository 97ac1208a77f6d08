//! The stage: the machines of the testers, the cluster, and the databases that are lent to workloads.

use super::run::Run;
use crate::library::instance::LentDatabase;
use shaketable_abi::FDBFuture;
use shaketable_cluster::client::Database;
use shaketable_cluster::error::Error;
use shaketable_fdbc::Border;
use shaketable_kernel::{Address, Kernel, ProcessId, ProcessSpec};
use std::cell::RefCell;
use std::rc::Rc;

/// Everything around the workloads. Cheap to clone.
#[derive(Clone)]
pub(super) struct Stage {
    kernel: Kernel,
    /// The process of the orchestrator, which runs no workloads.
    pub(super) test_system: ProcessId,
    pub(super) clients: Rc<[Rc<Client>]>,
    border: Rc<RefCell<Option<Border>>>,
}

/// A tester: the machine a client runs on.
pub(super) struct Client {
    pub(super) number: u32,
    pub(super) process: ProcessId,
    pub(super) address: Rc<str>,
    database: Option<Database>,
}

impl Stage {
    /// Adds the testers and boots the cluster.
    pub(super) fn boot(run: &Rc<Run>) -> Stage {
        let kernel = run.kernel.clone();
        let test_system = kernel.add_process(ProcessSpec {
            name: "TestSystem".into(),
            address: Address::v4(1, 1, 1, 1, 1),
            machine: "TestSystem".into(),
            zone: "TestSystem".into(),
            class: "test".into(),
            ..ProcessSpec::default()
        });
        let clients: Rc<[Rc<Client>]> = (0..run.client_count)
            .map(|number| {
                let address = Address::v4(3, 4, 3, number as u8 + 1, 1);
                let process = kernel.add_process(ProcessSpec {
                    name: format!("tester {number}"),
                    address,
                    machine: format!("tester-{number}"),
                    zone: format!("tester-{number}"),
                    class: "test".into(),
                    ..ProcessSpec::default()
                });
                run.add_client(process, number);
                Rc::new(Client {
                    number,
                    process,
                    address: address.to_string().into(),
                    database: None,
                })
            })
            .collect();
        let border = Border::new(&kernel);
        Stage {
            kernel,
            test_system,
            clients,
            border: Rc::new(RefCell::new(Some(border))),
        }
    }

    /// A fresh handle of a client's database; null if the test has none.
    pub(super) fn lend(&self, client: &Client) -> LentDatabase {
        let mut border = self.border.borrow_mut();
        match (border.as_mut(), &client.database) {
            (Some(border), Some(database)) => LentDatabase::new(border, database.clone()),
            _ => LentDatabase::none(),
        }
    }

    /// The future of `delay`.
    pub(super) fn delay(&self, process: ProcessId, seconds: f64) -> *mut FDBFuture {
        /// FoundationDB forgives this much, for sums of floating-point numbers.
        const FORGIVEN_SECONDS: f64 = -0.0001;
        let border = self.border.borrow();
        let Some(border) = border.as_ref() else {
            return std::ptr::null_mut();
        };
        let sleep = self.kernel.sleep(seconds);
        let future = border.future(process, async move {
            if seconds.is_nan() || seconds < FORGIVEN_SECONDS {
                return Err(Error::INTERNAL_ERROR);
            }
            sleep.await;
            Ok(())
        });
        future.cast()
    }

    /// How many futures of the database and delays somebody could be waiting for.
    pub(super) fn pending_operations(&self) -> usize {
        let border = self.border.borrow();
        border.as_ref().map_or(0, Border::pending_operations)
    }

    /// Cuts the code under test off from everything it still holds.
    pub(super) fn close(&self) {
        let border = self.border.borrow_mut().take();
        drop(border);
    }
}
