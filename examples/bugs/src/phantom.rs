//! A rule is checked by a snapshot read of a range, and a new row breaks it.
//!
//! A room can be booked for some hours if no booking overlaps them. The bookings of the day are
//! read by snapshot, and then the new one is written under its own key. Two clients that look at
//! the same time see no overlap, and write different keys: nothing conflicts. The fix reads the
//! range serializably, so that a row that appears in it is a conflict.

use crate::canary::{Client, Layer, read_all};
use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, RangeOption};
use shaketable::{PhaseResult, SimDatabase};

const HOURS: u32 = 1000;

#[derive(Default)]
pub struct Room;

impl Layer for Room {
    async fn start(&mut self, client: &Client, db: &SimDatabase) -> PhaseResult {
        for _ in 0..client.rounds {
            let from = client.below(HOURS);
            let to = from + 1 + client.below(60);
            db.run(|trx, _| async move {
                let day = RangeOption::from(&bookings());
                let mut free = true;
                let mut range = Some(day);
                while let Some(option) = range {
                    let rows = trx.get_range(&option, 1, !client.fixed).await?;
                    for row in rows.iter() {
                        let (begin, end) = hours(row.key(), row.value())?;
                        free &= end <= from || to <= begin;
                    }
                    range = option.next_range(&rows);
                }
                if free {
                    trx.set(&bookings().pack(&from), &Subspace::all().pack(&to));
                }
                Ok(())
            })
            .await?;
        }
        Ok(())
    }

    async fn check(&mut self, _client: &Client, db: &SimDatabase) -> PhaseResult {
        let rows = db
            .run(|trx, _| async move { read_all(&trx, &bookings()).await })
            .await?;
        let mut free_from = 0;
        for (key, value) in &rows {
            let (begin, end) = hours(key, value)?;
            if begin < free_from {
                return Err(format!("at {begin} there are two bookings").into());
            }
            free_from = end;
        }
        Ok(())
    }
}

fn hours(key: &[u8], value: &[u8]) -> Result<(u32, u32), FdbBindingError> {
    let begin = bookings().unpack(key).map_err(FdbBindingError::PackError)?;
    let end = Subspace::all()
        .unpack(value)
        .map_err(FdbBindingError::PackError)?;
    Ok((begin, end))
}

fn bookings() -> Subspace {
    Subspace::all().subspace(&"bookings")
}
