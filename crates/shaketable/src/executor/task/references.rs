//! Counting references, and the wakers that most of them are.
//!
//! The only code of a task that may run on any thread. On the task's own thread the last reference
//! frees the task; elsewhere it is sent home.

use super::{DONE, Header, JOINABLE, JoinError, TaskRef, queue};
use crate::executor::queue::Queue;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::atomic::{Ordering, fence};
use std::task::{RawWaker, RawWakerVTable, Waker};

pub(super) fn retain(header: NonNull<Header>) {
    // SAFETY: the caller holds a reference or the joint.
    let before = unsafe { header.as_ref() }
        .references
        .fetch_add(1, Ordering::Relaxed);
    if before > usize::MAX / 2 {
        std::process::abort();
    }
}

pub(super) fn release(header: NonNull<Header>) {
    queue::with(|queue| {
        // SAFETY: the caller gives up a reference it holds.
        unsafe {
            if queue.is_home(header.as_ref().home) {
                release_at_home(queue, header);
            } else {
                release_abroad(header);
            }
        }
    });
}

/// # Safety
///
/// The caller is on the task's thread, and gives up a reference that it holds.
pub(super) unsafe fn release_at_home(queue: &Queue, header: NonNull<Header>) {
    // SAFETY: by the caller's promise.
    let task = unsafe { header.as_ref() };
    if task.references.fetch_sub(1, Ordering::Release) != 1 {
        return;
    }
    fence(Ordering::Acquire);
    if task.flags.get() & DONE == 0 {
        // SAFETY: the count is zero, so nothing else refers to the task.
        return unsafe { abandon(queue, header) };
    }
    if task.flags.get() & JOINABLE == 0 {
        // SAFETY: the count is zero, there is no joint, and this is the home thread.
        unsafe { (task.table.deallocate)(header) };
        queue.buried();
    }
}

/// The last waker of a pending task is gone: nothing can run it any more.
///
/// # Safety
///
/// Home thread, and the count is zero.
#[cold]
unsafe fn abandon(queue: &Queue, header: NonNull<Header>) {
    // A future may wake its own task while it is dropped, so there is a reference again meanwhile.
    // SAFETY: by the caller's promise.
    unsafe { header.as_ref() }
        .references
        .store(1, Ordering::Relaxed);
    let last = TaskRef(header);
    last.stop(queue, JoinError::stuck());
    last.release(queue);
}

/// Gives up a reference away from home: all but the last are simply dropped.
#[cold]
fn release_abroad(header: NonNull<Header>) {
    // SAFETY: the caller gives up a reference it holds.
    let task = unsafe { header.as_ref() };
    let mut count = task.references.load(Ordering::Relaxed);
    while count > 1 {
        match task.references.compare_exchange_weak(
            count,
            count - 1,
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => return,
            Err(now) => count = now,
        }
    }
    // SAFETY: a home outlives its tasks.
    unsafe { &*task.home }.send_release(TaskRef(header));
}

static WAKER: RawWakerVTable =
    RawWakerVTable::new(waker_clone, waker_wake, waker_wake_by_ref, waker_drop);

pub(super) fn waker(header: NonNull<Header>) -> Waker {
    // SAFETY: the table keeps the contract: the count is atomic, and every function may be called
    // from any thread.
    unsafe { Waker::from_raw(RawWaker::new(header.as_ptr().cast_const().cast(), &WAKER)) }
}

fn header_of(data: *const ()) -> NonNull<Header> {
    // SAFETY: only `waker` makes these wakers, from a non-null pointer.
    unsafe { NonNull::new_unchecked(data.cast_mut().cast()) }
}

fn waker_clone(data: *const ()) -> RawWaker {
    retain(header_of(data));
    RawWaker::new(data, &WAKER)
}

fn waker_wake(data: *const ()) {
    wake(TaskRef(header_of(data)));
}

fn waker_wake_by_ref(data: *const ()) {
    let task = ManuallyDrop::new(TaskRef(header_of(data)));
    wake(TaskRef::clone(&task));
}

fn waker_drop(data: *const ()) {
    release(header_of(data));
}

/// Queues the task; polls nothing.
fn wake(task: TaskRef) {
    queue::with(|queue| {
        let home = task.header().home;
        if queue.is_home(home) {
            task.deliver(queue);
        } else {
            // SAFETY: a home outlives its tasks.
            unsafe { &*home }.send_wake(task);
        }
    });
}
