//! The part of a task that depends on the type of its future.
//!
//! A [`Table`] of three functions is all that the rest of the executor knows of it. The future
//! lives and dies in one place on the heap and is never moved, which is what pinning asks for.

use super::{Failure, Header, JOINABLE, JoinError};
use std::any::Any;
use std::cell::UnsafeCell;
use std::future::Future;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::ptr::NonNull;
use std::task::{Context, Poll};

/// The future is pending, came to its end, or panicked.
pub(super) type Polled = Poll<Result<(), Box<dyn Any + Send>>>;

/// What depends on the type of the future.
pub(super) struct Table {
    pub(super) poll: unsafe fn(NonNull<Header>, &mut Context<'_>) -> Polled,
    pub(super) discard: unsafe fn(NonNull<Header>, JoinError) -> Option<Failure>,
    pub(super) deallocate: unsafe fn(NonNull<Header>),
}

impl Table {
    /// For a task over `F`; with `JOIN`, one that keeps its output for a joint.
    pub(super) const fn of<F: Future, const JOIN: bool>() -> Self {
        Table {
            poll: poll::<F, JOIN>,
            discard: discard::<F>,
            deallocate: deallocate::<F>,
        }
    }
}

/// A whole task. The header stands first, so that a pointer to one is a pointer to the other.
#[repr(C)]
struct Task<F: Future> {
    header: Header,
    content: UnsafeCell<Content<F>>,
}

enum Content<F: Future> {
    Pending(F),
    Finished(Result<F::Output, JoinError>),
    Consumed,
}

/// Puts a task on the heap, until its table's `deallocate`.
#[inline]
pub(super) fn allocate<F: Future>(header: Header, future: F) -> NonNull<Header> {
    // Written in its place: a future can be large, and moving it twice costs twice.
    let mut cell = Box::<Task<F>>::new_uninit();
    cell.write(Task {
        header,
        content: UnsafeCell::new(Content::Pending(future)),
    });
    // SAFETY: written just above.
    let cell = unsafe { cell.assume_init() };
    NonNull::from(Box::leak(cell)).cast::<Header>()
}

/// # Safety
///
/// Home thread, exclusive use of the future; `header` belongs to a task over `F`.
unsafe fn poll<F: Future, const JOIN: bool>(
    header: NonNull<Header>,
    context: &mut Context<'_>,
) -> Polled {
    let polled = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: by the caller's promise.
        let content = unsafe { &mut *header.cast::<Task<F>>().as_ref().content.get() };
        let Content::Pending(future) = content else {
            return Poll::Ready(());
        };
        // SAFETY: the future never moves out of its heap cell: it is dropped in place.
        let future = unsafe { Pin::new_unchecked(future) };
        future.poll(context).map(|output| {
            *content = match JOIN {
                true => Content::Finished(Ok(output)),
                false => Content::Consumed,
            };
        })
    }));
    match polled {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(())) => {
            if JOIN {
                // SAFETY: by the caller's promise.
                unsafe { settle::<F>(header) };
            }
            Poll::Ready(Ok(()))
        }
        Err(payload) => Poll::Ready(Err(payload)),
    }
}

/// Drops the future in its place and leaves `reason` for the joiner.
///
/// # Safety
///
/// As for [`poll`].
unsafe fn discard<F: Future>(header: NonNull<Header>, reason: JoinError) -> Option<Failure> {
    // SAFETY: by the caller's promise.
    let content = unsafe { &mut *header.cast::<Task<F>>().as_ref().content.get() };
    let dropped = catch_unwind(AssertUnwindSafe(|| {
        *content = Content::Finished(Err(reason));
    }));
    // SAFETY: by the caller's promise.
    unsafe { settle::<F>(header) };
    dropped.err().map(Failure::panic)
}

/// Forgets an output that nothing will ask for.
///
/// # Safety
///
/// As for [`poll`]; the future is gone.
unsafe fn settle<F: Future>(header: NonNull<Header>) {
    // SAFETY: by the caller's promise.
    let cell = unsafe { header.cast::<Task<F>>().as_ref() };
    if cell.header.flags.get() & JOINABLE == 0 {
        // SAFETY: by the caller's promise.
        let content = unsafe { &mut *cell.content.get() };
        let output = std::mem::replace(content, Content::Consumed);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(output)));
    }
}

/// # Safety
///
/// Home thread, the task is done, and `header` belongs to a task over `F`.
pub(super) unsafe fn take_output<F: Future>(
    header: NonNull<Header>,
) -> Option<Result<F::Output, JoinError>> {
    // SAFETY: by the caller's promise.
    let content = unsafe { &mut *header.cast::<Task<F>>().as_ref().content.get() };
    match std::mem::replace(content, Content::Consumed) {
        Content::Finished(output) => Some(output),
        Content::Pending(_) | Content::Consumed => None,
    }
}

/// # Safety
///
/// Home thread, the task is done, no reference and no joint left; `header` belongs to a task over
/// `F`.
unsafe fn deallocate<F: Future>(header: NonNull<Header>) {
    // Done, so future, output, scope and joiner are gone: what is left is memory. SAFETY: allocated
    // by `allocate` with this layout.
    drop(unsafe { Box::from_raw(header.cast::<MaybeUninit<Task<F>>>().as_ptr()) });
}
