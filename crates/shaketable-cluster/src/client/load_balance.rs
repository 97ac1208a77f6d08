//! Which replica is asked, and when a second one is asked too.
//!
//! For every storage server a handle remembers how many of its requests are open, how long the last
//! answer took, and whether the server was behind. The least busy one is asked; one that was behind
//! is left alone for a while, and one that is known to be cut off for the rest of the run is asked
//! last. When an answer takes longer than the next best replica usually needs, that one is asked as
//! well, but only within a small budget: every answer earns a twentieth of a second request. So the
//! client mostly waits for a slow replica, which is how applications come to see 1009 although
//! other replicas have the version.

use crate::process::Process;
use crate::proto::{Key, StorageInterface};
use shaketable_kernel::{Address, Stream, Time};
use slab::Slab;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The shortest wait before a second request, in seconds.
const BASE_SECOND_REQUEST_TIME: f64 = 0.0005;
/// If the first replica is slower than this multiple of the wait, the second is asked at once.
const INSTANT_SECOND_REQUEST_MULTIPLIER: f64 = 2.0;
const SECOND_REQUEST_MULTIPLIER_GROWTH: f64 = 0.01;
const SECOND_REQUEST_MULTIPLIER_DECAY: f64 = 0.00025;
const SECOND_REQUEST_BUDGET_GROWTH: f64 = 0.05;
const SECOND_REQUEST_MAX_BUDGET: f64 = 100.0;
/// How long a server that was behind is left alone, initially and at most, in seconds.
const FUTURE_VERSION_BACKOFF: (f64, f64) = (1.0, 8.0);

/// What a handle knows about the storage servers.
pub(crate) struct LoadBalance {
    second_budget: Cell<f64>,
    second_multiplier: Cell<f64>,
    servers: RefCell<BTreeMap<u64, Measured>>,
    /// The requests that have no answer yet.
    questions: RefCell<Slab<Question>>,
}

/// A client's request that a storage server has not answered.
#[derive(Clone, Debug)]
pub struct Question {
    /// The key it is about, or the beginning of its range.
    pub key: Key,
    /// The address of the server.
    pub server: Address,
}

#[derive(Clone, Copy)]
struct Measured {
    open: u32,
    asked: Time,
    latency: f64,
    failed_until: Time,
    backoff: f64,
    backoff_grows_at: Time,
}

impl Default for Measured {
    fn default() -> Measured {
        Measured {
            open: 0,
            asked: Time::ZERO,
            latency: 0.001,
            failed_until: Time::ZERO,
            backoff: FUTURE_VERSION_BACKOFF.0,
            backoff_grows_at: Time::ZERO,
        }
    }
}

impl Default for LoadBalance {
    fn default() -> LoadBalance {
        LoadBalance {
            second_budget: Cell::new(0.0),
            second_multiplier: Cell::new(1.0),
            servers: RefCell::default(),
            questions: RefCell::default(),
        }
    }
}

/// The order in which to ask replicas.
pub(crate) struct Order {
    /// The index of the first replica to ask; the others follow in their order, wrapping around.
    first: usize,
    /// Bit by index, those that are known to be cut off for the rest of the run: they come last,
    /// because each takes seconds.
    lost: u64,
    /// The number of seconds after which the second replica is asked too, if it is.
    pub(crate) patience: Option<f64>,
}

impl Order {
    /// Begins with any of them, and asks no second one.
    pub(crate) fn random(servers: &[StorageInterface], random: &Stream, here: &Process) -> Order {
        Order {
            first: random.index(servers.len().max(1)),
            lost: lost(servers, here),
            patience: None,
        }
    }

    /// The index of the replica to ask after so many others, of so many in all.
    pub(crate) fn nth(&self, asked: usize, count: usize) -> usize {
        let around = || (self.first..self.first + count).map(|index| index % count);
        let is_lost = |index: &usize| self.lost >> index & 1 == 1;
        let reachable = around().filter(|index| !is_lost(index));
        let mut order = reachable.chain(around().filter(is_lost));
        order.nth(asked).expect("fewer have been asked")
    }
}

fn lost(servers: &[StorageInterface], here: &Process) -> u64 {
    let lost = servers.iter().enumerate().map(|(index, server)| {
        let is_lost = here.knows_cut_off(server.get_value.process());
        u64::from(is_lost) << index
    });
    lost.sum()
}

impl LoadBalance {
    /// Decides which replica to ask first.
    pub(crate) fn order(
        &self,
        servers: &[StorageInterface],
        random: &Stream,
        here: &Process,
    ) -> Order {
        let now = here.now();
        if servers.len() < 2 {
            return Order {
                first: 0,
                lost: 0,
                patience: None,
            };
        }
        let lost = lost(servers, here);
        let known = self.servers.borrow();
        let measured = |index: usize| known.get(&servers[index].id).copied().unwrap_or_default();
        let start = random.index(servers.len());
        let around = (0..servers.len()).map(|step| (start + step) % servers.len());
        let first = around
            .min_by_key(|index| {
                let one = measured(*index);
                (
                    lost >> index & 1,
                    one.failed_until > now,
                    one.open,
                    one.asked,
                )
            })
            .unwrap_or(start);
        let second = (first + 1) % servers.len();
        let (best, next) = (measured(first), measured(second));
        let wait = self.second_multiplier.get() * next.latency + BASE_SECOND_REQUEST_TIME;
        let wait = if best.latency > INSTANT_SECOND_REQUEST_MULTIPLIER * wait {
            0.0
        } else {
            wait
        };
        let affordable = self.second_budget.get() >= 1.0 && next.failed_until <= now;
        Order {
            first,
            lost,
            patience: affordable.then_some(wait),
        }
    }

    /// Pays for asking a second replica while the first has not answered.
    pub(crate) fn spend(&self) {
        self.second_budget.set(self.second_budget.get() - 1.0);
        let multiplier = self.second_multiplier.get();
        self.second_multiplier
            .set(multiplier + SECOND_REQUEST_MULTIPLIER_GROWTH);
    }

    /// The open requests, in no particular order.
    pub(crate) fn questions(&self) -> Vec<Question> {
        let questions = self.questions.borrow();
        questions
            .iter()
            .map(|(_, question)| question.clone())
            .collect()
    }

    /// Records that a server is asked about a key. The request is open until the returned guard is
    /// dropped.
    pub(crate) fn ask<'a>(
        &'a self,
        here: &'a Process,
        server: &StorageInterface,
        key: &Key,
    ) -> Open<'a> {
        let question = self.questions.borrow_mut().insert(Question {
            key: key.clone(),
            server: server.address,
        });
        let now = here.now();
        let mut servers = self.servers.borrow_mut();
        let measured = servers.entry(server.id).or_default();
        measured.open += 1;
        measured.asked = now;
        Open {
            balance: self,
            here,
            question,
            server: server.id,
            asked: now,
            end: Cell::new(End::Unknown),
        }
    }

    fn earn(&self) {
        let budget = self.second_budget.get() + SECOND_REQUEST_BUDGET_GROWTH;
        self.second_budget
            .set(budget.min(SECOND_REQUEST_MAX_BUDGET));
        let multiplier = self.second_multiplier.get() - SECOND_REQUEST_MULTIPLIER_DECAY;
        self.second_multiplier.set(multiplier.max(1.0));
    }
}

/// How a request ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// The request was dropped before its answer, or the connection broke.
    Unknown,
    /// With an answer.
    Answered,
    /// The server is behind.
    Behind,
}

/// A request that a server has not answered.
pub(crate) struct Open<'a> {
    balance: &'a LoadBalance,
    here: &'a Process,
    /// Its place among the open requests.
    question: usize,
    server: u64,
    asked: Time,
    end: Cell<End>,
}

impl Open<'_> {
    /// Records how the request ended.
    pub(crate) fn end(&self, end: End) {
        self.end.set(end);
        if end != End::Unknown {
            self.balance.earn();
        }
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let question = self.balance.questions.borrow_mut().remove(self.question);
        drop(question);
        let now = self.here.now();
        let taken = now.since(self.asked);
        let mut servers = self.balance.servers.borrow_mut();
        let measured = servers.entry(self.server).or_default();
        measured.open = measured.open.saturating_sub(1);
        match self.end.get() {
            End::Answered => {
                measured.latency = taken;
                measured.backoff = FUTURE_VERSION_BACKOFF.0;
                measured.backoff_grows_at = Time::ZERO;
            }
            End::Unknown => measured.latency = measured.latency.max(taken),
            End::Behind => {
                if now > measured.backoff_grows_at {
                    measured.backoff = (2.0 * measured.backoff).min(FUTURE_VERSION_BACKOFF.1);
                    measured.backoff_grows_at = now.after(measured.backoff);
                }
                measured.failed_until = now.after(measured.backoff);
            }
        }
    }
}
