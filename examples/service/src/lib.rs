//! A service as services are written: tokio, `tracing`, a lease that a background task renews,
//! orders that arrive through a channel, timeouts and retries, graceful shutdown.
//!
//! `service` and its modules know nothing of simulations; they would run against a cluster as they
//! are. `workload` starts one instance of the service on each client, which compete for one lease,
//! hands each its orders, and checks the journal they leave behind.
//!
//! Two bugs of this kind of code are beside it. Each is found within 200 seeds, and its fix passes
//! 2,000:
//!
//! | workload | what goes wrong |
//! |---|---|
//! | `late_renewal` | the task that works also renews the lease, and one slow commit starves it |
//! | `cancelled_commit` | a slow transaction is cancelled and made again, but it had committed |

mod lease;
mod service;
mod workload;

use service::Flaws;
use shaketable::{RustWorkloadFactory, WorkloadContext, WrappedWorkload, register_factory};
use workload::Orders;

struct Services;

impl RustWorkloadFactory for Services {
    fn create(name: String, context: WorkloadContext) -> WrappedWorkload {
        let fixed = context.get_option("fixed").unwrap_or(false);
        let flaws = match name.as_str() {
            "service" => Flaws::default(),
            "late_renewal" => Flaws {
                renews_between_orders: !fixed,
                ..Flaws::default()
            },
            "cancelled_commit" => Flaws {
                trusts_cancellation: !fixed,
                ..Flaws::default()
            },
            _ => return WrappedWorkload::unknown(&name),
        };
        WrappedWorkload::new(Orders::new(context, flaws))
    }
}

register_factory!(Services);
