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

mod assumed_order;
mod canary;
mod clock_lease;
mod double_increment;
mod forgotten_doubt;
mod hash_order;
mod ignored_more;
mod late_watch;
mod long_scan;
mod split_index;
mod swallowed_error;
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
            _ => WrappedWorkload::unknown(&name),
        }
    }
}

register_factory!(Bugs);
