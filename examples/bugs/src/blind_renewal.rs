//! A lease is renewed without a look at whose it is.
//!
//! The holder of a lease renews it with everything that it writes, so it should never run out. If
//! the holder is slow it does, another client takes it, and the next renewal takes it back: now
//! both write. The fix reads the lease in the transaction that renews it.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, RangeOption, RetryableTransaction};
use shaketable::{PhaseError, PhaseResult, SimDatabase};
use std::collections::BTreeSet;
use std::time::Duration;

/// How long a lease holds.
const SECONDS: f64 = 0.5;
/// How often the holder of a lease writes.
const PAUSE: Duration = Duration::from_millis(300);
/// How many entries a holder writes in one turn.
const ENTRIES: u32 = 3;

#[derive(Default)]
pub struct Journal;

impl Layer for Journal {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for turn in 0..client.rounds {
            if !take(client, db).await? {
                client.context.delay(PAUSE).await?;
                continue;
            }
            for entry in 0..ENTRIES {
                client.context.delay(PAUSE).await?;
                if !write(client, db, turn, entry).await? {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, db: &SimDatabase) -> PhaseResult {
        let rows = db
            .run(|trx, _| async move { read_all(&trx, &journal()).await })
            .await?;
        let (mut turns, mut last) = (BTreeSet::new(), None);
        for (key, value) in rows {
            let at: u32 = journal().unpack(&key)?;
            let turn: (i32, u32) = Subspace::all().unpack(&value)?;
            if last != Some(turn) && !turns.insert(turn) {
                let (client, turn) = turn;
                return Err(format!(
                    "entry {at} is of turn {turn} of client {client}, which was over"
                )
                .into());
            }
            last = Some(turn);
        }
        Ok(())
    }
}

/// Takes the lease if it is free, and returns whether it did.
async fn take(client: &Client, db: &SimDatabase) -> Result<bool, PhaseError> {
    let now = client.context.now();
    let taken = db
        .run(|trx, _| async move {
            let held = holder(&trx).await?;
            if held.is_some_and(|(holder, until)| holder != client.id() && until > now) {
                return Ok(false);
            }
            trx.set(
                &lease(),
                &Subspace::all().pack(&(client.id(), now + SECONDS)),
            );
            Ok(true)
        })
        .await?;
    Ok(taken)
}

/// Writes an entry and renews the lease, and returns whether the lease is still held.
async fn write(
    client: &Client,
    db: &SimDatabase,
    turn: u32,
    entry: u32,
) -> Result<bool, PhaseError> {
    let until = client.context.now() + SECONDS;
    let receipt = Subspace::all().pack(&("written", client.id(), turn, entry));
    let written = db
        .run(|trx, _| {
            let receipt = receipt.clone();
            async move {
                if trx.get(&receipt, false).await?.is_some() {
                    return Ok(true);
                }
                if client.fixed {
                    let held = holder(&trx).await?;
                    if held.is_none_or(|(holder, _)| holder != client.id()) {
                        return Ok(false);
                    }
                }
                trx.set(&lease(), &Subspace::all().pack(&(client.id(), until)));
                trx.set(&receipt, b"");
                let next = next_place(&trx).await?;
                let turn = Subspace::all().pack(&(client.id(), turn));
                trx.set(&journal().pack(&next), &turn);
                Ok(true)
            }
        })
        .await?;
    Ok(written)
}

/// Who holds the lease, and until when.
async fn holder(trx: &RetryableTransaction) -> Result<Option<(i32, f64)>, FdbBindingError> {
    let value = trx.get(&lease(), false).await?;
    let holder = value.map(|value| Subspace::all().unpack(&value));
    holder.transpose().map_err(FdbBindingError::PackError)
}

/// The place behind the last entry of the journal.
async fn next_place(trx: &RetryableTransaction) -> Result<u32, FdbBindingError> {
    let last = RangeOption {
        limit: Some(1),
        reverse: true,
        ..RangeOption::from(&journal())
    };
    let rows = trx.get_range(&last, 1, false).await?;
    let place = rows.first().map(|row| journal().unpack::<u32>(row.key()));
    let place = place.transpose().map_err(FdbBindingError::PackError)?;
    Ok(place.map_or(0, |place| place + 1))
}

fn lease() -> Vec<u8> {
    Subspace::all().pack(&"lease")
}

fn journal() -> Subspace {
    Subspace::all().subspace(&"journal")
}
