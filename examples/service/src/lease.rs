//! A lease in the database: one instance of the service leads at a time.
//!
//! A lease has a term, which grows with every change of the holder, and a deadline. The clock alone
//! makes nothing safe, because time passes between a look at it and a commit. What a leader writes
//! must check the term in its own transaction: [`holds`].

use foundationdb::tuple::Subspace;
use foundationdb::{Database, FdbBindingError, RetryableTransaction};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// How long a lease is good for without being renewed.
pub const DURATION: Duration = Duration::from_secs(2);

/// What the database says: the term, its holder, and the deadline in milliseconds since 1970.
type Record = (u64, String, u64);

#[derive(Clone)]
pub struct Lease {
    db: Arc<Database>,
}

impl Lease {
    pub fn new(db: Arc<Database>) -> Lease {
        Lease { db }
    }

    /// Takes the lease if it is free. `holder` is unique: an attempt whose result is unknown is
    /// recognised by it. Returns the term.
    pub async fn take(&self, holder: &str) -> Result<Option<u64>, FdbBindingError> {
        self.db
            .run(|trx, _| async move {
                let (term, current, deadline) = read(&trx).await?.unwrap_or_default();
                if current == holder {
                    return Ok(Some(term));
                }
                let now = now();
                if now < deadline {
                    return Ok(None);
                }
                write(&trx, &(term + 1, holder.to_owned(), now + millis(DURATION)));
                Ok(Some(term + 1))
            })
            .await
    }

    /// Moves the deadline. Returns whether the lease still has this term.
    pub async fn renew(&self, term: u64) -> Result<bool, FdbBindingError> {
        self.db
            .run(|trx, _| async move {
                match read(&trx).await? {
                    Some((current, holder, _)) if current == term => {
                        write(&trx, &(term, holder, now() + millis(DURATION)));
                        Ok(true)
                    }
                    _ => Ok(false),
                }
            })
            .await
    }

    /// Lets another instance lead at once.
    pub async fn release(&self, term: u64) -> Result<(), FdbBindingError> {
        self.db
            .run(|trx, _| async move {
                if holds(&trx, term).await? {
                    write(&trx, &(term, String::new(), 0));
                }
                Ok(())
            })
            .await
    }
}

/// Whether the lease has this term, as far as this transaction sees. It conflicts with a change.
pub async fn holds(trx: &RetryableTransaction, term: u64) -> Result<bool, FdbBindingError> {
    Ok(read(trx)
        .await?
        .is_some_and(|(current, _, _)| current == term))
}

async fn read(trx: &RetryableTransaction) -> Result<Option<Record>, FdbBindingError> {
    let Some(value) = trx.get(&key(), false).await? else {
        return Ok(None);
    };
    let record = Subspace::all().unpack(&value);
    Ok(Some(record.map_err(FdbBindingError::PackError)?))
}

fn write(trx: &RetryableTransaction, record: &Record) {
    trx.set(&key(), &Subspace::all().pack(record));
}

fn key() -> Vec<u8> {
    Subspace::all().pack(&"lease")
}

fn now() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "a service asks the machine's clock; in a simulation it is the simulated one"
    )]
    let now = SystemTime::now();
    now.duration_since(SystemTime::UNIX_EPOCH).map_or(0, millis)
}

fn millis(duration: Duration) -> u64 {
    duration.as_millis() as u64
}
