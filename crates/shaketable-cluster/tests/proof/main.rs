//! The proof that the embedded cluster is FoundationDB where it matters: ten thousand clusters are
//! broken in every way there is, and
//!
//! * what their clients saw was strictly serializable;
//! * nothing that was acknowledged is lost, nothing that was refused is there;
//! * nothing happened twice that was not done twice;
//! * after 1021 a commit has happened or never will, and both occur;
//! * when the faults stop, every client makes progress, whatever it was waiting for.
//!
//! Eight workloads share the seeds. All are proved by the checkers of `shaketable_cluster::checker`
//! from the true order of commits, and each also by what it knows of its own data. A sweep that was
//! too quiet fails: what happened is counted, and there are minimum counts.
//!
//! All of them take most of a minute, optimised, and that is how CI runs them:
//!
//! ```text
//! cargo test --release -p shaketable-cluster --test proof
//! ```
//!
//! Built for debugging, as by `cargo test`, a seed takes twice as long. The proof then has the
//! first tenth of them, with overflow checks, and of each workload enough for the minimum counts.
//!
//! `SHAKETABLE_SEEDS=50000` runs that many seeds of each workload, `SHAKETABLE_SEEDS=10000..20000`
//! that range, `SHAKETABLE_SEED=7` only that one.

mod harness;
mod trouble;
mod workloads;

use harness::{fingerprint, prove};
use workloads::{Anything, Baton, Claims, Queue, Ring, Signals, Transfers, Waits};

const ANYTHING: u64 = 3_000;
const TRANSFERS: u64 = 1_500;
const RING: u64 = 1_500;
const QUEUE: u64 = 1_500;
const CLAIMS: u64 = 1_500;
const BATON: u64 = 1_000;
const SIGNALS: u64 = 1_000;
const WAITS: u64 = 10_000;
const _: () = assert!(ANYTHING + TRANSFERS + RING + QUEUE + CLAIMS + BATON >= 10_000);

/// How many of its seeds a workload runs: all of them, or in a build for debugging the first tenth,
/// and at least so many that rare things happen as often as a sweep has to show.
const fn share(seeds: u64) -> u64 {
    if !cfg!(debug_assertions) {
        seeds
    } else if seeds / 10 < 250 {
        250
    } else {
        seeds / 10
    }
}

#[test]
fn transactions_of_every_kind_are_strictly_serializable_while_the_cluster_breaks() {
    prove::<Anything>(share(ANYTHING));
}

#[test]
fn transfers_neither_make_nor_lose_money_while_the_cluster_breaks() {
    prove::<Transfers>(share(TRANSFERS));
}

#[test]
fn a_ring_stays_a_ring_while_the_cluster_breaks() {
    prove::<Ring>(share(RING));
}

#[test]
fn a_queue_keeps_its_order_while_the_cluster_breaks() {
    prove::<Queue>(share(QUEUE));
}

#[test]
fn a_name_has_one_owner_and_the_index_agrees_while_the_cluster_breaks() {
    prove::<Claims>(share(CLAIMS));
}

#[test]
fn no_watch_is_forgotten_while_the_cluster_breaks() {
    prove::<Baton>(share(BATON));
}

#[test]
fn no_watch_trusts_a_write_that_was_undone() {
    prove::<Signals>(share(SIGNALS));
}

#[test]
fn whatever_a_client_waits_for_comes_once_the_faults_stop() {
    prove::<Waits>(share(WAITS));
}

#[test]
fn the_same_seed_breaks_the_same_way() {
    for seed in 0..20 {
        assert_eq!(
            fingerprint::<Anything>(seed),
            fingerprint::<Anything>(seed),
            "seed {seed}"
        );
    }
}
