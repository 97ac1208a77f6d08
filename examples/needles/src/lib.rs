//! Bugs that chance alone hardly finds, for searches to be measured by.
//!
//! Each needs several rare things in a row. The code says, with marks, how far along it is: that is
//! all a guided search has to go by. `docs/performance.md` says how many runs it takes, with
//! guidance and without, and `conformance/needles.py` measures it.
//!
//! | workload | what it takes |
//! |---|---|
//! | `three_doubts` | three commits in a row whose results are unknown, and that have all landed |
//! | `maze` | seven right turns in a row, of six possible each time |
//! | `lock_order` | six clients that wait for each other in a circle |
//! | `rebalance` | a table so lopsided that its rows are moved |
//! | `two_faults` | one transaction that meets an unknown result, and then an error as it looks for its receipt |

mod lock_order;
mod maze;
mod rebalance;
mod three_doubts;
mod two_faults;

use shaketable::foundationdb::tuple::{Subspace, TuplePack};
use shaketable::foundationdb::{FdbBindingError, RetryableTransaction};
use shaketable::{RustWorkloadFactory, WorkloadContext, WrappedWorkload, register_factory};

struct Needles;

impl RustWorkloadFactory for Needles {
    fn create(name: String, context: WorkloadContext) -> WrappedWorkload {
        match name.as_str() {
            "three_doubts" => WrappedWorkload::new(three_doubts::Counter::new(context)),
            "maze" => WrappedWorkload::new(maze::Maze::new(context)),
            "lock_order" => WrappedWorkload::new(lock_order::Locks::new(context)),
            "rebalance" => WrappedWorkload::new(rebalance::Table::new(context)),
            "two_faults" => WrappedWorkload::new(two_faults::Counter::new(context)),
            _ => WrappedWorkload::unknown(&name),
        }
    }
}

register_factory!(Needles);

/// The key of a tuple.
fn key(parts: &impl TuplePack) -> Vec<u8> {
    Subspace::all().pack(parts)
}

/// A number stored as eight little-endian bytes; nothing stored is zero.
async fn number(trx: &RetryableTransaction, key: &[u8]) -> Result<i64, FdbBindingError> {
    match trx.get(key, false).await? {
        Some(value) => (*value)
            .try_into()
            .map(i64::from_le_bytes)
            .map_err(|error| FdbBindingError::new_custom_error(Box::new(error))),
        None => Ok(0),
    }
}
