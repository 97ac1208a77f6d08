//! A closure as a workload: its `start` is the closure, everything else is empty.
//!
//! The host knows a factory by its address alone, so the closure waits for it on the seed's thread.

use super::run::enter;
use crate::context::WorkloadContext;
use crate::instance::WrappedWorkload;
use crate::workload::{PhaseOutcome, PhaseResult, SimDatabase, Workload};
use shaketable_abi::v1::{FDBWorkload, FDBWorkloadContext};
use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_char;
use std::marker::PhantomData;
use std::sync::Arc;

thread_local! {
    static BODY: RefCell<Option<Arc<dyn Any + Send + Sync>>> = const { RefCell::new(None) };
}

/// Takes the closure back when it is dropped.
pub(super) struct Lent;

/// Lets [`factory`] find this closure on this thread.
pub(super) fn lend<F: Send + Sync + 'static>(body: &Arc<F>) -> Lent {
    BODY.set(Some(body.clone()));
    Lent
}

impl Drop for Lent {
    fn drop(&mut self) {
        BODY.set(None);
    }
}

/// Makes workloads of the closure that was lent to this thread.
pub(super) unsafe extern "C" fn factory<F, R>(
    name: *const c_char,
    context: FDBWorkloadContext,
) -> FDBWorkload
where
    F: AsyncFn(SimDatabase, WorkloadContext) -> R + Send + Sync + 'static,
    R: PhaseOutcome,
{
    // SAFETY: a host calls this, with what a host passes.
    unsafe {
        enter(
            name,
            context,
            foundationdb_sys::FDB_API_VERSION,
            make::<F, R>,
        )
    }
}

fn make<F, R>(_name: String, context: WorkloadContext) -> WrappedWorkload
where
    F: AsyncFn(SimDatabase, WorkloadContext) -> R + Send + Sync + 'static,
    R: PhaseOutcome,
{
    let body = BODY.with_borrow(Clone::clone);
    let body = body.and_then(|body| body.downcast::<F>().ok());
    WrappedWorkload::new(Body {
        body: body.expect("the closure was lent to this thread"),
        context,
        outcome: PhantomData,
    })
}

struct Body<F, R> {
    body: Arc<F>,
    context: WorkloadContext,
    outcome: PhantomData<fn() -> R>,
}

impl<F, R> Workload for Body<F, R>
where
    F: AsyncFn(SimDatabase, WorkloadContext) -> R + Send + Sync + 'static,
    R: PhaseOutcome,
{
    async fn start(&mut self, db: SimDatabase) -> PhaseResult {
        (self.body)(db, self.context.clone()).await.into_result()
    }
}
