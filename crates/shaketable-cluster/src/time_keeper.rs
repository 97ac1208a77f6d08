//! The map from time to versions that every cluster keeps for its clients.
//!
//! Every ten seconds one row is written under `\xff\x02/timeKeeper/map/` that says which version
//! belongs to which second: key and value are tuples of one integer, the seconds since 1970 and the
//! version. Clients look there for the version of a moment. The cluster has no calendar; the caller
//! that starts the keeper passes in the time.

use crate::client::Database;
use crate::data::tuple;
use crate::proto::Key;
use shaketable_kernel::Priority;

const PREFIX: &[u8] = b"\xff\x02/timeKeeper/map/";
/// Transaction options, by FoundationDB's numbers.
const ACCESS_SYSTEM_KEYS: i32 = 301;
const LOCK_AWARE: i32 = 700;
const SECONDS_BETWEEN_ROWS: f64 = 10.0;

/// Keeps the map on the process of the database handle, until the run ends. `unix_seconds_now` is
/// the time at this call.
pub fn start(database: Database, unix_seconds_now: u64) {
    let here = database.process().clone();
    let began = here.now();
    let clock = here.clone();
    let keep = async move {
        loop {
            let seconds = unix_seconds_now + clock.now().since(began) as u64;
            write_row(&database, seconds).await;
            clock.sleep(SECONDS_BETWEEN_ROWS).await;
        }
    };
    here.spawn(Priority::DefaultEndpoint, keep).detach();
}

/// Writes one row, with as many attempts as it takes.
async fn write_row(database: &Database, seconds: u64) {
    let transaction = database.create_transaction();
    loop {
        transaction.set_option(ACCESS_SYSTEM_KEYS, None);
        transaction.set_option(LOCK_AWARE, None);
        let attempt = async {
            let version = transaction.get_read_version().await?;
            let key: Key = [PREFIX, &tuple::encode_integer(seconds)].concat().into();
            let value = tuple::encode_integer(version as u64).into();
            transaction.set(key, value);
            transaction.commit().await
        };
        match attempt.await {
            Ok(()) => return,
            Err(error) => {
                // An error that cannot be retried leaves a gap in the map, as it would in a real
                // cluster.
                if transaction.on_error(error).await.is_err() {
                    return;
                }
            }
        }
    }
}
