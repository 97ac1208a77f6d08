//! Databases of an ordinary program live in the machine's time: timeouts, back-off, watches and
//! versions.
//!
//! What a timed scenario answers is replayed on a virtual clock (`golden`). Here is what only a
//! real clock can show, as bounds that hold on the busiest machine: nothing comes before its time,
//! and it does come. It may be late by as much as the machine is, so no test asks how late.

use foundationdb::options::TransactionOption;
use foundationdb::{Database, FdbError, FdbResult};
use std::time::{Duration, Instant};

const TRANSACTION_TIMED_OUT: i32 = 1031;
const FUTURE_VERSION: i32 = 1009;

#[test]
fn nothing_comes_before_its_time_and_everything_comes() {
    shaketable_fdbc::keep_symbols();
    // SAFETY: the guard is dropped, which stops the network, before the program ends.
    let network = unsafe { foundationdb::boot() };
    futures::executor::block_on(async {
        let database = Database::default().expect("no cluster file is needed");
        assert_ok(timeouts(&database).await);
        assert_ok(versions(&database).await);
        assert_ok(watches(&database).await);
    });
    drop(network);
}

/// A read of a version that is an hour away waits: for the timeout, or for a second.
async fn timeouts(database: &Database) -> FdbResult<()> {
    let now = database.create_trx()?.get_read_version().await?;
    let in_an_hour = now + 3_600_000_000;
    for (timeout_ms, code, at_least) in [
        (150, TRANSACTION_TIMED_OUT, Duration::from_millis(150)),
        (0, FUTURE_VERSION, Duration::from_secs(1)),
    ] {
        let start = clock();
        let transaction = database.create_trx()?;
        transaction.set_option(TransactionOption::Timeout(timeout_ms))?;
        transaction.set_read_version(in_an_hour);
        let error = transaction
            .get(b"key", false)
            .await
            .map(|_| ())
            .unwrap_err();
        assert_eq!(error.code(), code);
        assert!(start.elapsed() >= at_least, "{:?}", start.elapsed());
    }
    Ok(())
}

/// Commits are a million versions a second apart, between the two answers at least and between the
/// two questions at most.
async fn versions(database: &Database) -> FdbResult<()> {
    let asked_first = clock();
    let first = commit(database).await?;
    let answered_first = clock();
    #[expect(
        clippy::disallowed_methods,
        reason = "the library runs on the machine's clock here"
    )]
    std::thread::sleep(Duration::from_millis(300));
    let at_least = answered_first.elapsed();
    let second = commit(database).await?;
    let at_most = asked_first.elapsed();
    let passed = Duration::from_micros((second - first).try_into().expect("versions grow"));
    assert!(
        at_least <= passed && passed <= at_most,
        "{passed:?} is not between {at_least:?} and {at_most:?}"
    );
    Ok(())
}

/// The version of a commit.
async fn commit(database: &Database) -> FdbResult<i64> {
    let transaction = database.create_trx()?;
    transaction.set(b"key", b"value");
    let committed = transaction.commit().await.map_err(FdbError::from)?;
    committed.committed_version()
}

/// A watch fires, however long its change lets it wait.
async fn watches(database: &Database) -> FdbResult<()> {
    let transaction = database.create_trx()?;
    let watch = transaction.watch(b"key");
    transaction.commit().await.map_err(FdbError::from)?;
    let transaction = database.create_trx()?;
    transaction.set(b"key", b"changed");
    transaction.commit().await.map_err(FdbError::from)?;
    watch.await
}

fn assert_ok(result: FdbResult<()>) {
    result.expect("the library answers");
}

#[expect(
    clippy::disallowed_methods,
    reason = "the library runs on the machine's clock here"
)]
fn clock() -> Instant {
    Instant::now()
}
