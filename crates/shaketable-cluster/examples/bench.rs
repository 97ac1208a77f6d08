//! Measures what the cluster costs: transactions a second of wall time, the latency of a database without waits, and the
//! size and speed of a storage server's map.
//!
//! `cargo run --release --example bench [clients]`; with a number only that many clients are measured.

use bytes::Bytes;
use shaketable_cluster::client::Database;
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_cluster::server::versioned_map::VersionedMap;
use shaketable_kernel::{Address, Kernel, Priority, ProcessSpec};
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

fn main() {
    if let Some(clients) = std::env::args().nth(1) {
        return concurrent(clients.parse().expect("a number of clients"));
    }
    sequential();
    for clients in [1, 100, 2000] {
        concurrent(clients);
    }
    map();
}

fn client(
    kernel: &Kernel,
    cluster: &Cluster,
    number: usize,
) -> (shaketable_kernel::ProcessId, Database) {
    let process = kernel.add_process(ProcessSpec {
        name: format!("client {number}"),
        address: Address::v4(3, 4, (number / 200) as u8, (number % 200) as u8, 1),
        ..ProcessSpec::default()
    });
    (process, cluster.open_database(process, 740))
}

async fn transact(database: &Database, key: Bytes) {
    let transaction = database.create_transaction();
    loop {
        let result = async {
            transaction.get(key.clone(), false).await?;
            transaction.set(key.clone(), Bytes::from_static(b"value"));
            transaction.commit().await
        };
        match result.await {
            Ok(()) => return,
            Err(error) => transaction.on_error(error).await.expect("retryable"),
        }
    }
}

// It measures the machine on purpose.
#[allow(clippy::disallowed_methods)]
fn timed<T>(body: impl FnOnce() -> T) -> (T, f64) {
    let started = Instant::now();
    let result = body();
    (result, started.elapsed().as_secs_f64())
}

fn sequential() {
    let kernel = Kernel::real(1);
    let cluster = Cluster::start(&kernel, ClusterConfig::single_process(true));
    let (_, database) = client(&kernel, &cluster, 0);
    let count = 20_000;
    let run = async {
        for number in 0..count {
            transact(&database, Bytes::from(format!("{number:08}"))).await;
        }
    };
    let ((), seconds) = timed(|| kernel.block_on(run).expect("no dead-lock"));
    println!(
        "instant, one after another: {:.1} us a get+set+commit",
        seconds * 1e6 / f64::from(count)
    );
}

fn concurrent(clients: usize) {
    let kernel = Kernel::simulation(1);
    let options = LayoutOptions {
        simple_config: true,
        ..LayoutOptions::default()
    };
    let config = ClusterConfig::simulation(&kernel, &options, false).expect("a layout");
    let cluster = Cluster::start(&kernel, config);
    let (process, database) = client(&kernel, &cluster, 0);
    let each = 100_000 / clients.max(100);
    let tasks: Vec<_> = (0..clients)
        .map(|client| {
            let database = database.clone();
            kernel.spawn(process, Priority::DefaultEndpoint, async move {
                for number in 0..each {
                    transact(&database, Bytes::from(format!("{client}/{number}"))).await;
                }
            })
        })
        .collect();
    let run = async {
        for task in tasks {
            task.join().await;
        }
    };
    let ((), seconds) = timed(|| kernel.block_on(run).expect("no dead-lock"));
    let count = (each * clients) as f64;
    println!(
        "simulated, {clients} at a time: {:.0} get+set+commit a second of wall time, {:.1} events each",
        count / seconds,
        kernel.events() as f64 / count
    );
    kernel.shutdown();
}

fn resident() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: f64 = text
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0.0);
    pages * 4096.0 / 1024.0 / 1024.0
}

fn map() {
    let count = 1_000_000_u64;
    let key = |number: u64| {
        Bytes::from(format!(
            "{:016x}",
            number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        ))
    };
    let before = resident();
    let mut map = VersionedMap::default();
    let ((), seconds) = timed(|| {
        for number in 0..count {
            map.set(number as i64 / 100 + 1, &key(number), &[7; 32]);
            if number % 10_000 == 0 {
                map.forget_before(number as i64 / 100 - 100);
            }
        }
        map.forget_before(count as i64);
    });
    println!(
        "1,000,000 rows of 16+32 bytes: {:.0} MiB, {:.0} ns a set",
        resident() - before,
        seconds * 1e3
    );
    let model: BTreeMap<Bytes, Bytes> = (0..count)
        .map(|number| (key(number), Bytes::from(vec![7; 32])))
        .collect();
    let keys: Vec<Bytes> = (0..count).map(|number| key(number * 7 % count)).collect();
    let version = count as i64;
    let (_, ours) = timed(|| {
        for key in &keys {
            black_box(map.get(key, version).map(Bytes::copy_from_slice));
        }
    });
    let (_, theirs) = timed(|| {
        for key in &keys {
            black_box(model.get(key).cloned());
        }
    });
    println!(
        "a point read: {:.0} ns, a look-up in a BTreeMap: {:.0} ns",
        ours * 1e3,
        theirs * 1e3
    );
    let (rows, seconds) = timed(|| map.range(b"", b"\xff", version).count());
    println!(
        "a read of {rows} rows: {:.1} ns a row",
        seconds * 1e9 / rows as f64
    );
    let ((), seconds) = timed(|| {
        map.clear_range(version + 1, &Bytes::new(), &Bytes::from_static(b"\xff"));
    });
    let ((), later) = timed(|| map.forget_before(version + 1));
    println!(
        "a clear of all rows: {:.1} ms, and {:.1} ms when it leaves the window",
        seconds * 1e3,
        later * 1e3
    );
}
