//! The suite of a layer that knows nothing of Shaketable: `#[tokio::test]`, `Database::default()`,
//! real time, threads.
//!
//! It runs on the embedded FoundationDB because it is linked: the first line below is all that was
//! added. Everything after it is as one writes it against a cluster.

use shaketable as _;

use foundationdb::options::{MutationType, StreamingMode};
use foundationdb::tuple::Subspace;
use foundationdb::{Database, FdbBindingError, RangeOption};
use std::sync::LazyLock;

static NETWORK: LazyLock<foundationdb::api::NetworkAutoStop> = LazyLock::new(|| {
    // SAFETY: never dropped, and started once.
    unsafe { foundationdb::boot() }
});

fn database() -> Database {
    LazyLock::force(&NETWORK);
    Database::default().expect("the default cluster")
}

/// A layer: the visitors of a page, by name.
struct Visitors(Subspace);

impl Visitors {
    async fn visit(&self, db: &Database, name: &str) -> Result<(), FdbBindingError> {
        let key = self.0.pack(&name);
        let key = &key;
        db.run(|trx, _| async move {
            trx.atomic_op(key, &1_u64.to_le_bytes(), MutationType::Add);
            Ok(())
        })
        .await
    }

    async fn all(&self, db: &Database) -> Result<Vec<(String, u64)>, FdbBindingError> {
        db.run(|trx, _| async move {
            let range = RangeOption {
                mode: StreamingMode::WantAll,
                ..RangeOption::from(&self.0)
            };
            let values = trx.get_range(&range, 1, false).await?;
            let visitor = |pair: &foundationdb::future::FdbKeyValue| {
                let name: String = self.0.unpack(pair.key()).expect("a name");
                let count = pair.value().try_into().expect("eight bytes");
                (name, u64::from_le_bytes(count))
            };
            Ok(values.iter().map(visitor).collect())
        })
        .await
    }
}

#[tokio::test]
async fn visits_are_counted() -> Result<(), FdbBindingError> {
    let db = database();
    let visitors = Visitors(Subspace::from("counted"));
    for name in ["ada", "bob", "ada"] {
        visitors.visit(&db, name).await?;
    }
    let expected = [("ada".to_owned(), 2), ("bob".to_owned(), 1)];
    assert_eq!(visitors.all(&db).await?, expected);
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn visits_at_once_are_all_counted() -> Result<(), FdbBindingError> {
    let visits = (0..50).map(|_| {
        tokio::spawn(async {
            let db = database();
            Visitors(Subspace::from("at once")).visit(&db, "ada").await
        })
    });
    for visit in visits.collect::<Vec<_>>() {
        visit.await.expect("no panic")?;
    }
    let all = Visitors(Subspace::from("at once")).all(&database()).await?;
    assert_eq!(all, [("ada".to_owned(), 50)]);
    Ok(())
}

#[test]
fn the_database_is_in_this_process() {
    drop(database());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    assert!(!maps.contains("libfdb_c"), "{maps}");
}
