//! Records with a secondary index that must never disagree with them.
//!
//! A record is `id → colour`; the index holds `(colour, id)`. Both are written in one transaction,
//! after reading the old colour, so a reader of one can trust the other. Clients set random records
//! to random colours, delete some, and now and then read all records of one colour through the
//! index.

use shaketable::foundationdb::tuple::Subspace;
use shaketable::foundationdb::{FdbBindingError, RangeOption, RetryableTransaction};
use shaketable::{
    Metric, Metrics, PhaseResult, SimDatabase, SingleRustWorkload, Workload, WorkloadContext,
    register_workload,
};
use std::collections::BTreeSet;

const COLOURS: [&str; 5] = ["red", "green", "blue", "black", "white"];

struct Index {
    context: WorkloadContext,
    records: u32,
    updates: u32,
    looked_up: u64,
}

impl SingleRustWorkload for Index {
    fn new(_name: String, context: WorkloadContext) -> Self {
        Index {
            records: context.get_option("records").unwrap_or(30),
            updates: context.get_option("updates").unwrap_or(40),
            context,
            looked_up: 0,
        }
    }
}

impl Workload for Index {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        for _ in 0..self.updates {
            let id = self.context.rnd() % self.records;
            let colour = COLOURS[self.context.rnd() as usize % COLOURS.len()];
            match self.context.rnd() % 5 {
                0 => {
                    db.run(|trx, _| async move { put(&trx, id, None).await })
                        .await?
                }
                1 => {
                    let found = db
                        .run(|trx, _| async move { look_up(&trx, colour).await })
                        .await?;
                    self.looked_up += found;
                }
                _ => {
                    db.run(|trx, _| async move { put(&trx, id, Some(colour)).await })
                        .await?
                }
            }
        }
        Ok(())
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        let (records, index) = db
            .run(|trx, _| async move {
                let records: BTreeSet<(String, u32)> = read(&trx, &records_space())
                    .await?
                    .into_iter()
                    .map(|(key, value)| {
                        let id = records_space().unpack(&key)?;
                        let colour: String = Subspace::all().unpack(&value)?;
                        Ok((colour, id))
                    })
                    .collect::<Result<_, _>>()
                    .map_err(FdbBindingError::PackError)?;
                let index: BTreeSet<(String, u32)> = read(&trx, &index_space())
                    .await?
                    .iter()
                    .map(|(key, _)| index_space().unpack(key))
                    .collect::<Result<_, _>>()
                    .map_err(FdbBindingError::PackError)?;
                Ok((records, index))
            })
            .await?;
        if records != index {
            let missing: Vec<_> = records.difference(&index).collect();
            let stale: Vec<_> = index.difference(&records).collect();
            return Err(format!(
                "the index disagrees with the records: it lacks {missing:?} and still has {stale:?}"
            )
            .into());
        }
        Ok(())
    }

    fn get_metrics(&self, mut out: Metrics) {
        out.push(Metric::val("looked_up", self.looked_up as f64));
    }

    fn get_check_timeout(&self) -> f64 {
        5000.0
    }
}

/// Writes or deletes a record, together with its entry in the index.
async fn put(
    trx: &RetryableTransaction,
    id: u32,
    colour: Option<&str>,
) -> Result<(), FdbBindingError> {
    let key = records_space().pack(&id);
    if let Some(old) = trx.get(&key, false).await? {
        let old: String = Subspace::all()
            .unpack(&old)
            .map_err(FdbBindingError::PackError)?;
        trx.clear(&index_space().pack(&(old, id)));
        trx.clear(&key);
    }
    if let Some(colour) = colour {
        trx.set(&key, &Subspace::all().pack(&colour));
        trx.set(&index_space().pack(&(colour, id)), b"");
    }
    Ok(())
}

/// Reads all records of a colour through the index; every entry must lead to a record of that
/// colour.
async fn look_up(trx: &RetryableTransaction, colour: &str) -> Result<u64, FdbBindingError> {
    let entries = read(trx, &index_space().subspace(&colour)).await?;
    for (key, _) in &entries {
        let (_, id): (String, u32) = index_space()
            .unpack(key)
            .map_err(FdbBindingError::PackError)?;
        let record = trx.get(&records_space().pack(&id), false).await?;
        let expected = Subspace::all().pack(&colour);
        if record.as_deref() != Some(&expected[..]) {
            return Err(FdbBindingError::new_custom_error(
                format!("the index calls record {id} {colour}, the record itself does not").into(),
            ));
        }
    }
    Ok(entries.len() as u64)
}

type Rows = Vec<(Vec<u8>, Vec<u8>)>;

async fn read(trx: &RetryableTransaction, space: &Subspace) -> Result<Rows, FdbBindingError> {
    let mut found = Vec::new();
    let mut range = Some(RangeOption::from(space));
    while let Some(option) = range {
        let rows = trx.get_range(&option, 1, false).await?;
        found.extend(
            rows.iter()
                .map(|row| (row.key().into(), row.value().into())),
        );
        range = option.next_range(&rows);
    }
    Ok(found)
}

fn records_space() -> Subspace {
    Subspace::all().subspace(&("index", "records"))
}

fn index_space() -> Subspace {
    Subspace::all().subspace(&("index", "by colour"))
}

register_workload!(Index);
