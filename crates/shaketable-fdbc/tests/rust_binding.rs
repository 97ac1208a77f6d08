//! A Rust program that links this crate needs no `libfdb_c`: the published crate `foundationdb`
//! finds its functions here.

use foundationdb::{Database, FdbBindingError, RangeOption, Transaction};
use futures::TryStreamExt;

async fn add_one(transaction: &Transaction, key: &[u8]) -> Result<u8, FdbBindingError> {
    let count = transaction
        .get(key, false)
        .await?
        .map_or(0, |value| value[0]);
    transaction.set(key, &[count + 1]);
    Ok(count + 1)
}

#[test]
fn the_published_crate_runs_inside_the_same_program() {
    shaketable_fdbc::keep_symbols();
    // SAFETY: the guard is dropped, which stops the network, before the program ends.
    let network = unsafe { foundationdb::boot() };
    futures::executor::block_on(async {
        let database = Database::default().expect("no cluster file is needed");
        for expected in 1..=3 {
            let count = database
                .run(|transaction, _| async move { add_one(&transaction, b"count").await })
                .await
                .expect("nothing else writes");
            assert_eq!(count, expected);
        }
        let transaction = database.create_trx().expect("a transaction");
        let rows: Vec<_> = transaction
            .get_ranges_keyvalues(RangeOption::from((&b""[..], &b"\xff"[..])), false)
            .map_ok(|row| (row.key().to_vec(), row.value().to_vec()))
            .try_collect()
            .await
            .expect("the rows");
        assert_eq!(rows, [(b"count".to_vec(), vec![3])]);

        let other = Database::from_path("another name").expect("another cluster");
        let transaction = other.create_trx().expect("a transaction");
        let value = transaction.get(b"count", false).await.expect("a read");
        assert_eq!(value.as_deref(), None, "another name is another cluster");
        let same = Database::from_path("another name").expect("the same cluster");
        transaction.set(b"count", b"there");
        transaction.commit().await.expect("a commit");
        let transaction = same.create_trx().expect("a transaction");
        let value = transaction.get(b"count", false).await.expect("a read");
        assert_eq!(value.as_deref(), Some(&b"there"[..]));
    });
    drop(network);
}
