//! Leaders with fencing tokens: at most one may write, even if several believe that they lead.
//!
//! A client becomes leader by writing its id and a *term*, one higher than the last, into the
//! lease. Others leave the lease alone while its deadline has not passed. Deadlines are compared
//! with the clock, and a clock proves nothing: a leader that was slow may believe in a lease that
//! another has taken over. So the term is a fencing token: every write a leader makes reads the
//! lease in the same transaction, and is refused if the term has moved on. The journal therefore
//! holds terms that never go back, and one writer per term.

use shaketable::foundationdb::options::MutationType;
use shaketable::foundationdb::tuple::{Subspace, Versionstamp};
use shaketable::foundationdb::{FdbBindingError, RangeOption, RetryableTransaction};
use shaketable::{
    Metric, Metrics, PhaseResult, SimDatabase, SingleRustWorkload, Workload, WorkloadContext,
    register_workload, sleep,
};
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a lease lasts.
const LEASE_MS: u32 = 2000;

struct Election {
    context: WorkloadContext,
    rounds: u32,
    elected: u64,
    written: u64,
    fenced: u64,
}

/// Who leads, since when, until when.
#[derive(Clone, Copy)]
struct Lease {
    term: u64,
    owner: i32,
    deadline: f64,
}

impl SingleRustWorkload for Election {
    fn new(_name: String, context: WorkloadContext) -> Self {
        Election {
            rounds: context.get_option("rounds").unwrap_or(30),
            context,
            elected: 0,
            written: 0,
            fenced: 0,
        }
    }
}

impl Workload for Election {
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        let me = self.context.client_id();
        for _ in 0..self.rounds {
            self.pause(1000).await;
            let context = self.context.clone();
            let term = db
                .run(|trx, _| {
                    let context = context.clone();
                    async move { campaign(&trx, me, &context).await }
                })
                .await?;
            let Some(term) = term else { continue };
            self.elected += 1;
            // A slow leader: its lease may be gone by the time it writes.
            self.pause(2 * LEASE_MS).await;
            let written = db
                .run(|trx, _| async move { write(&trx, me, term).await })
                .await?;
            if written {
                self.written += 1;
            } else {
                self.fenced += 1;
            }
        }
        Ok(())
    }

    async fn check(&mut self, db: SimDatabase) -> PhaseResult {
        let journal = db.run(|trx, _| async move { journal(&trx).await }).await?;
        let mut owners: BTreeMap<u64, i32> = BTreeMap::new();
        let mut highest = 0;
        for (term, owner) in &journal {
            if *term < highest {
                return Err(format!(
                    "client {owner} wrote in term {term} although term {highest} had written before: {journal:?}"
                )
                .into());
            }
            highest = *term;
            let known = owners.entry(*term).or_insert(*owner);
            if known != owner {
                return Err(format!("clients {known} and {owner} both led in term {term}").into());
            }
        }
        Ok(())
    }

    fn get_metrics(&self, mut out: Metrics) {
        out.extend([
            Metric::val("elected", self.elected as f64),
            Metric::val("written", self.written as f64),
            Metric::val("fenced", self.fenced as f64),
        ]);
    }

    fn get_check_timeout(&self) -> f64 {
        5000.0
    }
}

impl Election {
    /// Sleeps for a random time.
    async fn pause(&self, at_most_ms: u32) {
        sleep(Duration::from_millis(u64::from(
            self.context.rnd() % at_most_ms,
        )))
        .await;
    }
}

/// Takes the lease if it is free, has run out, or is its own; returns the new term if it did.
async fn campaign(
    trx: &RetryableTransaction,
    me: i32,
    context: &WorkloadContext,
) -> Result<Option<u64>, FdbBindingError> {
    let now = context.now();
    let last = lease(trx).await?;
    if last.is_some_and(|last| last.owner != me && now < last.deadline) {
        return Ok(None);
    }
    let term = last.map_or(0, |last| last.term) + 1;
    let lease = Subspace::all().pack(&(term, me, now + f64::from(LEASE_MS) / 1000.0));
    trx.set(&lease_key(), &lease);
    Ok(Some(term))
}

/// Writes to the journal, provided the term is still the one of the lease.
async fn write(trx: &RetryableTransaction, me: i32, term: u64) -> Result<bool, FdbBindingError> {
    if lease(trx).await?.is_none_or(|lease| lease.term != term) {
        return Ok(false);
    }
    let key = journal_space().pack_with_versionstamp(&Versionstamp::incomplete(0));
    let entry = Subspace::all().pack(&(term, me));
    trx.atomic_op(&key, &entry, MutationType::SetVersionstampedKey);
    Ok(true)
}

async fn lease(trx: &RetryableTransaction) -> Result<Option<Lease>, FdbBindingError> {
    let Some(value) = trx.get(&lease_key(), false).await? else {
        return Ok(None);
    };
    let (term, owner, deadline) = Subspace::all()
        .unpack(&value)
        .map_err(FdbBindingError::PackError)?;
    Ok(Some(Lease {
        term,
        owner,
        deadline,
    }))
}

/// All writes, in commit order.
async fn journal(trx: &RetryableTransaction) -> Result<Vec<(u64, i32)>, FdbBindingError> {
    let mut journal = Vec::new();
    let mut range = Some(RangeOption::from(&journal_space()));
    while let Some(option) = range {
        let rows = trx.get_range(&option, 1, false).await?;
        for row in rows.iter() {
            journal.push(
                Subspace::all()
                    .unpack(row.value())
                    .map_err(FdbBindingError::PackError)?,
            );
        }
        range = option.next_range(&rows);
    }
    Ok(journal)
}

fn lease_key() -> Vec<u8> {
    Subspace::all().pack(&("election", "lease"))
}

fn journal_space() -> Subspace {
    Subspace::all().subspace(&("election", "journal"))
}

register_workload!(Election);
