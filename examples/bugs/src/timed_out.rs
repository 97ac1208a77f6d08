//! A transaction that timed out is taken for one that did nothing.
//!
//! With the option `Timeout` a transaction fails with 1031 after some time, wherever it is. If it
//! was committing, the commit may arrive all the same. Here a seat is booked again after a timeout,
//! and the guest has two. The fix gives the booking an id and looks for it before booking again.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::options::{MutationType, TransactionOption};
use shaketable::foundationdb::tuple::{Subspace, Versionstamp};
use shaketable::foundationdb::{FdbError, Transaction};
use shaketable::{PhaseError, PhaseResult, SimDatabase};

/// The patience of a guest: more after every timeout, because a cluster may be too slow for less.
const TIMEOUT_MS: i32 = 500;
const TIMEOUT_MAX_MS: i32 = 8_000;
const TIMED_OUT: i32 = 1031;

#[derive(Default)]
pub struct Seats;

impl Layer for Seats {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for round in 0..client.rounds {
            let guest = Subspace::all().pack(&("guest", client.id(), round));
            let mut patience = Patience::new(db);
            let mut trx = patience.begin()?;
            loop {
                let booked = if client.fixed {
                    trx.get(&guest, false).await.map(|seat| seat.is_some())
                } else {
                    Ok(false)
                };
                trx = match booked {
                    Ok(true) => break,
                    Ok(false) => {
                        let key = seats().pack_with_versionstamp(&Versionstamp::incomplete(0));
                        trx.atomic_op(&key, &guest, MutationType::SetVersionstampedKey);
                        if client.fixed {
                            trx.set(&guest, b"");
                        }
                        match trx.commit().await {
                            Ok(_) => break,
                            Err(error) if error.code() == TIMED_OUT => patience.begin()?,
                            // An unknown result is known to be dangerous.
                            Err(error) if error.is_maybe_committed() && !client.fixed => break,
                            Err(error) => patience.after(error.on_error().await)?,
                        }
                    }
                    Err(error) if error.code() == TIMED_OUT => patience.begin()?,
                    Err(error) => patience.after(trx.on_error(error).await)?,
                };
            }
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, db: &SimDatabase) -> PhaseResult {
        let rows = db
            .run(|trx, _| async move { read_all(&trx, &seats()).await })
            .await?;
        let mut guests: Vec<_> = rows.into_iter().map(|(_, guest)| guest).collect();
        guests.sort();
        if let Some(two) = guests.windows(2).find(|two| two[0] == two[1]) {
            let guest: (String, i32, u32) = Subspace::all().unpack(&two[0])?;
            return Err(format!("{guest:?} has two seats").into());
        }
        Ok(())
    }
}

/// Begins transactions that fail after some time.
struct Patience<'a> {
    db: &'a SimDatabase,
    timeout_ms: i32,
}

impl Patience<'_> {
    fn new(db: &SimDatabase) -> Patience<'_> {
        Patience {
            db,
            timeout_ms: TIMEOUT_MS,
        }
    }

    fn begin(&mut self) -> Result<Transaction, PhaseError> {
        let trx = self.db.create_trx()?;
        trx.set_option(TransactionOption::Timeout(self.timeout_ms))?;
        self.timeout_ms = TIMEOUT_MAX_MS.min(self.timeout_ms * 2);
        Ok(trx)
    }

    /// The transaction to go on with after a pause, which may time out too.
    fn after(&mut self, paused: Result<Transaction, FdbError>) -> Result<Transaction, PhaseError> {
        match paused {
            Err(error) if error.code() == TIMED_OUT => self.begin(),
            paused => Ok(paused?),
        }
    }
}

fn seats() -> Subspace {
    Subspace::all().subspace(&"seats")
}
