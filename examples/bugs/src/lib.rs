//! Bugs that people really write on FoundationDB, each beside its fix.
//!
//! One file per bug. The layer in it has two ways to do the same thing: as it is often written, and
//! right; the option `fixed` of the test file chooses. A sweep over the broken form finds a failing
//! seed within 200 seeds, one over the fixed form passes 2,000: that is how we know that the
//! simulation shakes hard enough, and not too hard.
//!
//! | workload | what goes wrong |
//! |---|---|
//! | `double_increment` | an increment is made again after an unknown result (1021) |
//! | `forgotten_doubt` | the doubt after a 1021 is forgotten when the next attempt fails too |
//! | `write_skew` | a rule over two keys is checked with snapshot reads |
//! | `split_index` | a record and its index are written in two transactions |
//! | `ignored_more` | a range read takes the first batch for the whole range |
//! | `late_watch` | a watch is set in another transaction than the read it guards |
//! | `clock_lease` | a lease is trusted because the clock says so |
//! | `assumed_order` | a sequence number is chosen before the commit that makes it visible |
//! | `long_scan` | a scan outlives the five seconds of a transaction and goes on in the next one |
//! | `hash_order` | the order of a `HashMap` becomes part of what is stored |
//! | `swallowed_error` | a failed commit is logged and taken for done |
//! | `cleared_receipt` | a receipt is cleared by a janitor before the retry looks for it |
//! | `snapshot_id` | an id is taken from a counter that is read by snapshot |
//! | `stale_version` | a read version is kept over transactions, and is too old |
//! | `split_update` | a value is read in one transaction and written back in another |
//! | `phantom` | a rule is checked by a snapshot read of a range, and a new row breaks it |
//! | `unique_outside` | a name is looked up in one transaction and taken in another |
//! | `blind_watch` | a watch is taken for a message, and nothing is read again |
//! | `uncommitted_watch` | a watch is set in a transaction that is never committed |
//! | `stolen_release` | a lock is released by a client that no longer holds it |
//! | `early_effect` | work is done for a transaction that does not commit |
//! | `dropped_commit` | a commit that takes too long is dropped and made again |
//! | `new_id` | an unknown result is reported as a failure, and tried again under a new id |
//! | `oversold` | stock is checked by snapshot and taken by an atomic subtraction |
//! | `offset_pages` | pages are counted by an offset, in a list that changes |
//! | `neighbour` | a range is cleared that begins like another one |
//! | `stale_cache` | a cache is filled with a value that was read before the last change |
//! | `timed_out` | a transaction that timed out (1031) is taken for one that did nothing |
//! | `claimed_twice` | a job is chosen by a snapshot read and claimed without a conflict |
//! | `double_append` | a line is appended again after an unknown result |
//! | `kept_state` | what one attempt collected is still there in the next one |
//! | `flushed_twice` | a cached counter is flushed again after an unknown result |
//! | `reused_cursor` | a cursor that an attempt has moved is still moved in the next one |
//! | `snapshot_index` | the old entry of an index is found by a snapshot read |
//! | `own_entry` | a retry takes the entry of its own commit for another client's |
//! | `lost_pop` | a job that was popped is lost after an unknown result |
//! | `false_failure` | an unknown result is reported as a failure, and what was done stays |
//! | `drawn_apart` | a number is drawn by an addition, and read in the next transaction |
//! | `blind_renewal` | a lease is renewed without a look at whose it is |
//! | `same_stamp` | two rows of one transaction get the same versionstamp |
//! | `maybe_done` | `maybe_committed` is taken for "committed" |
//! | `version_id` | the version of a commit is taken for a unique number |
//! | `orphan_record` | a client dies between a record and its index |
//! | `abandoned_job` | a worker dies, and the job that it had claimed is never done |
//! | `unreturned_lease` | the holder of a lease dies, and never gives it back |
//!
//! In the last three the clients die: their files say `shaketableCrashes`.

mod abandoned_job;
mod assumed_order;
mod blind_renewal;
mod blind_watch;
mod canary;
mod claimed_twice;
mod cleared_receipt;
mod clock_lease;
mod double_append;
mod double_increment;
mod drawn_apart;
mod dropped_commit;
mod early_effect;
mod false_failure;
mod flushed_twice;
mod forgotten_doubt;
mod hash_order;
mod ignored_more;
mod kept_state;
mod late_watch;
mod long_scan;
mod lost_pop;
mod maybe_done;
mod neighbour;
mod new_id;
mod offset_pages;
mod orphan_record;
mod oversold;
mod own_entry;
mod phantom;
mod reused_cursor;
mod same_stamp;
mod snapshot_id;
mod snapshot_index;
mod split_index;
mod split_update;
mod stale_cache;
mod stale_version;
mod stolen_release;
mod swallowed_error;
mod timed_out;
mod uncommitted_watch;
mod unique_outside;
mod unreturned_lease;
mod version_id;
mod write_skew;

use canary::Canary;
use shaketable::{RustWorkloadFactory, WorkloadContext, WrappedWorkload, register_factory};

struct Bugs;

impl RustWorkloadFactory for Bugs {
    fn create(name: String, context: WorkloadContext) -> WrappedWorkload {
        match name.as_str() {
            "assumed_order" => WrappedWorkload::new(Canary::<assumed_order::Feed>::new(context)),
            "clock_lease" => WrappedWorkload::new(Canary::<clock_lease::Lease>::new(context)),
            "double_increment" => {
                WrappedWorkload::new(Canary::<double_increment::Counter>::new(context))
            }
            "forgotten_doubt" => {
                WrappedWorkload::new(Canary::<forgotten_doubt::Counter>::new(context))
            }
            "hash_order" => WrappedWorkload::new(Canary::<hash_order::Document>::new(context)),
            "ignored_more" => WrappedWorkload::new(Canary::<ignored_more::Ledger>::new(context)),
            "late_watch" => WrappedWorkload::new(Canary::<late_watch::Copy>::new(context)),
            "long_scan" => WrappedWorkload::new(Canary::<long_scan::Audit>::new(context)),
            "split_index" => WrappedWorkload::new(Canary::<split_index::Index>::new(context)),
            "swallowed_error" => WrappedWorkload::new(Canary::<swallowed_error::Log>::new(context)),
            "write_skew" => WrappedWorkload::new(Canary::<write_skew::Rota>::new(context)),
            "cleared_receipt" => {
                WrappedWorkload::new(Canary::<cleared_receipt::Counter>::new(context))
            }
            "snapshot_id" => WrappedWorkload::new(Canary::<snapshot_id::Orders>::new(context)),
            "stale_version" => WrappedWorkload::new(Canary::<stale_version::Notes>::new(context)),
            "split_update" => WrappedWorkload::new(Canary::<split_update::Account>::new(context)),
            "phantom" => WrappedWorkload::new(Canary::<phantom::Room>::new(context)),
            "unique_outside" => WrappedWorkload::new(Canary::<unique_outside::Names>::new(context)),
            "blind_watch" => WrappedWorkload::new(Canary::<blind_watch::Follower>::new(context)),
            "uncommitted_watch" => {
                WrappedWorkload::new(Canary::<uncommitted_watch::Copy>::new(context))
            }
            "stolen_release" => WrappedWorkload::new(Canary::<stolen_release::Lock>::new(context)),
            "early_effect" => WrappedWorkload::new(Canary::<early_effect::Worker>::new(context)),
            "dropped_commit" => {
                WrappedWorkload::new(Canary::<dropped_commit::Transfers>::new(context))
            }
            "new_id" => WrappedWorkload::new(Canary::<new_id::Shop>::new(context)),
            "oversold" => WrappedWorkload::new(Canary::<oversold::Tickets>::new(context)),
            "offset_pages" => WrappedWorkload::new(Canary::<offset_pages::List>::new(context)),
            "neighbour" => WrappedWorkload::new(Canary::<neighbour::Files>::new(context)),
            "stale_cache" => WrappedWorkload::new(Canary::<stale_cache::Cached>::new(context)),
            "timed_out" => WrappedWorkload::new(Canary::<timed_out::Seats>::new(context)),
            "claimed_twice" => WrappedWorkload::new(Canary::<claimed_twice::Queue>::new(context)),
            "double_append" => WrappedWorkload::new(Canary::<double_append::Diary>::new(context)),
            "kept_state" => WrappedWorkload::new(Canary::<kept_state::Basket>::new(context)),
            "flushed_twice" => WrappedWorkload::new(Canary::<flushed_twice::Hits>::new(context)),
            "reused_cursor" => {
                WrappedWorkload::new(Canary::<reused_cursor::Migration>::new(context))
            }
            "snapshot_index" => {
                WrappedWorkload::new(Canary::<snapshot_index::Cities>::new(context))
            }
            "orphan_record" => WrappedWorkload::new(Canary::<orphan_record::Records>::new(context)),
            "abandoned_job" => WrappedWorkload::new(Canary::<abandoned_job::Worker>::new(context)),
            "unreturned_lease" => {
                WrappedWorkload::new(Canary::<unreturned_lease::Lease>::new(context))
            }
            "own_entry" => WrappedWorkload::new(Canary::<own_entry::Names>::new(context)),
            "lost_pop" => WrappedWorkload::new(Canary::<lost_pop::Worker>::new(context)),
            "maybe_done" => WrappedWorkload::new(Canary::<maybe_done::Counter>::new(context)),
            "version_id" => WrappedWorkload::new(Canary::<version_id::Log>::new(context)),
            "false_failure" => WrappedWorkload::new(Canary::<false_failure::Shop>::new(context)),
            "drawn_apart" => WrappedWorkload::new(Canary::<drawn_apart::Tickets>::new(context)),
            "blind_renewal" => WrappedWorkload::new(Canary::<blind_renewal::Journal>::new(context)),
            "same_stamp" => WrappedWorkload::new(Canary::<same_stamp::Mail>::new(context)),
            _ => WrappedWorkload::unknown(&name),
        }
    }
}

register_factory!(Bugs);
