//! Counts what became of the operations of the code under test, by the place that made them.
//!
//! A record knows everything about a run and is too expensive for every run. Here only pairs are
//! counted: a place that calls the database, and an outcome that one of its calls has met. The
//! host says what a place is, by a number ([`crate::CApi::count_outcomes`]); a call costs a look at
//! the stack and an addition.
//!
//! A commit whose client does not learn its fate is counted when the run is over, with what really
//! became of it.
//!
//! A host that searches also wants to know *when* a pair was met for the first time, and, if it is
//! no success, for the second, the third, the fourth and the eighth time: a run that has met one
//! unknown result is a good place to look for one that meets two.

use crate::outstanding::Ask;
use crate::value::Value;
use shaketable_cluster::client::Transaction;
use shaketable_cluster::error::Error;
use shaketable_cluster::truth::{CommitTruth, Sent};
use shaketable_kernel::{Kernel, Time};

/// Returns the number of the place from which a call is made.
pub type SiteProbe = fn() -> u32;

/// The calls that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountedCall {
    /// A commit.
    Commit,
    /// A read of one key.
    Read,
    /// A read of a range.
    RangeRead,
    /// A watch.
    Watch,
    /// A read version, asked for by itself.
    ReadVersion,
}

impl CountedCall {
    fn of(ask: &Ask) -> Option<CountedCall> {
        Some(match ask {
            Ask::Commit => CountedCall::Commit,
            Ask::Get(_) | Ask::GetKey(_) => CountedCall::Read,
            Ask::GetRange(..) | Ask::GetMappedRange(..) => CountedCall::RangeRead,
            Ask::Watch(_) => CountedCall::Watch,
            Ask::ReadVersion => CountedCall::ReadVersion,
            _ => return None,
        })
    }
}

/// What an operation has met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Met {
    /// It succeeded.
    Ok,
    /// A commit that wrote something, and depends on nothing that it read.
    OkBlind,
    /// A commit that had nothing to write.
    OkReadOnly,
    /// A range came with `more`.
    More,
    /// An error, by its code.
    Error(i32),
    /// An error after which the fate of the commit is unknown. It had landed.
    Landed(i32),
    /// An error after which the fate of the commit is unknown. It was lost.
    Lost(i32),
}

/// How often something was met at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reached {
    /// The number of the place.
    pub site: u32,
    /// The call.
    pub call: CountedCall,
    /// What it met.
    pub met: Met,
    /// How often.
    pub count: u64,
}

/// When something was met at a place for the first time, or once more in a number of note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Milestone {
    /// The number of the place.
    pub site: u32,
    /// The call.
    pub call: CountedCall,
    /// What it met.
    pub met: Met,
    /// How often it had met that by then.
    pub count: u64,
    /// When.
    pub time: Time,
}

impl Met {
    /// Whether a run that has met this so often is one to remember.
    fn is_milestone(self, count: u64) -> bool {
        match self {
            Met::Ok | Met::OkBlind | Met::OkReadOnly => count == 1,
            _ => count <= 4 || count == 8,
        }
    }
}

/// An operation that is counted when it has ended.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    site: u32,
    call: CountedCall,
    truth: Option<CommitTruth>,
}

impl Counted {
    pub(crate) fn new(site: u32, ask: &Ask, transaction: &Transaction) -> Option<Counted> {
        let call = CountedCall::of(ask)?;
        let truth = (call == CountedCall::Commit).then(|| transaction.follow_commit());
        Some(Counted { site, call, truth })
    }
}

/// The counts of a run.
#[derive(Debug, Default)]
pub(crate) struct Coverage {
    /// By the number of the place. Few things are met at each.
    sites: Vec<Vec<(CountedCall, Met, u64)>>,
    /// The commits whose clients do not know their fate, and since when.
    doubts: Vec<(u32, i32, CommitTruth, Time)>,
    /// Tells the time, if milestones are kept.
    clock: Option<Kernel>,
    milestones: Vec<Milestone>,
}

impl Coverage {
    /// From now on milestones are kept.
    pub(crate) fn keep_milestones(&mut self, clock: &Kernel) {
        self.clock = Some(clock.clone());
    }

    /// The milestones that were kept. To be taken after everything is finished.
    pub(crate) fn take_milestones(&mut self) -> Vec<Milestone> {
        std::mem::take(&mut self.milestones)
    }

    fn now(&self) -> Time {
        self.clock.as_ref().map_or(Time::ZERO, Kernel::now)
    }

    /// An operation has ended.
    pub(crate) fn end(&mut self, counted: Counted, outcome: &Result<Value, Error>) {
        let Counted { site, call, truth } = counted;
        let met = match (outcome, truth) {
            (Ok(Value::Rows(rows)), _) if rows.more => Met::More,
            (Ok(Value::MappedRows(rows)), _) if rows.more => Met::More,
            (Ok(_), Some(truth)) => match truth.sent() {
                Sent::Nothing => Met::OkReadOnly,
                Sent::Blind => Met::OkBlind,
                Sent::WithReads => Met::Ok,
            },
            (Ok(_), None) => Met::Ok,
            (Err(error), Some(truth)) if is_doubtful(*error) && truth.sent() != Sent::Nothing => {
                self.doubts.push((site, error.0, truth, self.now()));
                return;
            }
            (Err(error), _) => Met::Error(error.0),
        };
        self.count(site, call, met, self.now());
    }

    fn count(&mut self, site: u32, call: CountedCall, met: Met, time: Time) {
        let index = site as usize;
        if self.sites.len() <= index {
            self.sites.resize_with(index + 1, Vec::new);
        }
        let known = self.sites[index].iter_mut();
        let mut known = known.filter(|known| known.0 == call && known.1 == met);
        let count = match known.next() {
            Some(known) => {
                known.2 += 1;
                known.2
            }
            None => {
                self.sites[index].push((call, met, 1));
                1
            }
        };
        if self.clock.is_some() && met.is_milestone(count) {
            self.milestones.push(Milestone {
                site,
                call,
                met,
                count,
                time,
            });
        }
    }

    /// Everything that was met, by place.
    pub(crate) fn finish(&mut self) -> Vec<Reached> {
        for (site, code, truth, since) in std::mem::take(&mut self.doubts) {
            let met = match truth.has_landed() {
                true => Met::Landed(code),
                false => Met::Lost(code),
            };
            self.count(site, CountedCall::Commit, met, since);
        }
        let sites = (0..).zip(std::mem::take(&mut self.sites));
        let reached = sites.flat_map(|(site, mut all)| {
            all.sort_unstable();
            all.into_iter().map(move |(call, met, count)| Reached {
                site,
                call,
                met,
                count,
            })
        });
        reached.collect()
    }
}

/// Whether a commit may have landed in spite of this error.
fn is_doubtful(error: Error) -> bool {
    [
        Error::COMMIT_UNKNOWN_RESULT,
        Error::TRANSACTION_TIMED_OUT,
        Error::TRANSACTION_CANCELLED,
        Error::OPERATION_CANCELLED,
        Error::USED_DURING_COMMIT,
    ]
    .contains(&error)
}
