//! How many transactions per second one core does: each reads a key, sets another and commits.
//!
//! `cargo run --release --example throughput -- 200000 100` runs that many transactions in that many loops at once.

use bytes::Bytes;
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_kernel::{Address, Kernel, NetworkConfig, Priority, ProcessSpec};
use std::cell::Cell;
use std::rc::Rc;

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|argument| argument.parse::<u64>().expect("a number"));
    let transactions = arguments.next().unwrap_or(200_000);
    let loops = arguments.next().unwrap_or(100);
    let instant = arguments.next().unwrap_or(1) != 0;
    let kernel = Kernel::simulation(1);
    if instant {
        kernel.set_network_config(NetworkConfig::instant());
    }
    let cluster = Cluster::start(&kernel, ClusterConfig::single_process(instant));
    let process = kernel.add_process(ProcessSpec {
        name: "client".into(),
        address: Address::v4(2, 0, 0, 1, 1),
        ..ProcessSpec::default()
    });
    let database = cluster.open_database(process, 740);
    kernel.block_on(kernel.sleep(1.0)).expect("time passes");
    let (left, failed) = (Rc::new(Cell::new(transactions)), Rc::new(Cell::new(0u64)));
    #[expect(
        clippy::disallowed_methods,
        reason = "the machine's own speed is measured"
    )]
    let begun = std::time::Instant::now();
    let tasks: Vec<_> = (0..loops)
        .map(|number| {
            let (database, left, failed, random) = (
                database.clone(),
                left.clone(),
                failed.clone(),
                kernel.stream(&format!("loop {number}")),
            );
            kernel.spawn(process, Priority::DefaultEndpoint, async move {
                while left.get() > 0 {
                    left.set(left.get() - 1);
                    let transaction = database.create_transaction();
                    let key = || Bytes::from(format!("key{:08}", random.below(100_000)));
                    let result = async {
                        transaction.get(key(), false).await?;
                        transaction.set(key(), Bytes::from_static(b"0123456789abcdef"));
                        transaction.commit().await
                    };
                    if result.await.is_err() {
                        failed.set(failed.get() + 1);
                    }
                }
            })
        })
        .collect();
    kernel
        .block_on(async {
            for task in tasks {
                task.await;
            }
        })
        .expect("all loops end");
    let seconds = begun.elapsed().as_secs_f64();
    println!(
        "{:.0} transactions per second, {} failed, {} events",
        transactions as f64 / seconds,
        failed.get(),
        kernel.events()
    );
}
