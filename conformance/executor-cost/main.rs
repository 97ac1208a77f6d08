//! Spawns and wakes tasks, on one of two executors, for callgrind to count.
//!
//! usage: executor-cost ours|published TASKS WAKES

mod published;

use std::cell::RefCell;
use std::future::Future;
use std::task::{Poll, Waker};

thread_local! {
    static WAKER: RefCell<Option<Waker>> = const { RefCell::new(None) };
}

/// Pending so many times; each time it leaves its waker, as a FoundationDB future does.
#[inline(never)]
fn future(mut wakes: u64) -> impl Future<Output = ()> + 'static {
    std::future::poll_fn(move |context| {
        if wakes == 0 {
            return Poll::Ready(());
        }
        wakes -= 1;
        WAKER.set(Some(context.waker().clone()));
        Poll::Pending
    })
}

fn run(spawn: impl Fn(u64), hook: fn(), tasks: u64, wakes: u64) {
    for _ in 0..tasks {
        spawn(wakes);
        for _ in 0..wakes {
            if let Some(waker) = WAKER.take() {
                waker.wake();
            }
            hook();
        }
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let number = |index: usize| arguments[index].parse().expect("a number");
    let (tasks, wakes) = (number(2), number(3));
    match arguments[1].as_str() {
        "ours" => {
            let spawn = |wakes| shaketable::fdb_spawn(future(wakes));
            run(spawn, shaketable::poll_pending_tasks, tasks, wakes);
        }
        "published" => {
            let spawn = |wakes| published::fdb_spawn(future(wakes));
            run(spawn, published::poll_pending_tasks, tasks, wakes);
        }
        other => panic!("no executor `{other}`"),
    }
}
