//! Wake-ups: none is lost, none is served twice, and all are served in the same drain.

use super::*;

#[test]
fn a_task_that_yields_runs_again_without_another_callback() {
    let _clean = NothingLeft;
    let log = Log::default();
    let inner = log.clone();
    fdb_spawn(async move {
        for turn in 0..3 {
            inner.note(format!("turn {turn}"));
            yield_now().await;
        }
        inner.note("end");
    });
    assert_eq!(log.take(), ["turn 0", "turn 1", "turn 2", "end"]);
}

#[test]
fn a_task_woken_through_a_channel_during_a_drain_runs_in_the_same_drain() {
    let _clean = NothingLeft;
    let log = Log::default();
    let future = HostFuture::new(&log, "a");
    let (sender, mut receiver) = mpsc::unbounded();
    let inner = log.clone();
    fdb_spawn(async move {
        use futures::StreamExt;
        while let Some(number) = receiver.next().await {
            inner.note(format!("received {number}"));
        }
        inner.note("closed");
    });
    let inner = future.clone();
    fdb_spawn(async move {
        inner.await;
        for number in 0..2 {
            sender.unbounded_send(number).expect("open");
            yield_now().await;
        }
    });
    log.take();
    future.callback();
    assert_eq!(
        log.take(),
        [
            "a callback",
            "a woken",
            "a ready",
            "received 0",
            "received 1",
            "closed",
            "a callback ends"
        ]
    );
}

#[test]
fn woken_twice_is_polled_once() {
    let _clean = NothingLeft;
    let polls = Rc::new(Cell::new(0));
    let wakers: Rc<RefCell<Vec<Waker>>> = Rc::default();
    let (count, keep) = (polls.clone(), wakers.clone());
    fdb_spawn(std::future::poll_fn(move |context| {
        count.set(count.get() + 1);
        keep.borrow_mut().push(context.waker().clone());
        Poll::Pending
    }));
    assert_eq!(polls.get(), 1);
    let first = wakers.borrow()[0].clone();
    first.wake_by_ref();
    first.wake_by_ref();
    wakers.borrow()[0].wake_by_ref();
    assert_eq!(polls.get(), 1, "a wake-up polls nothing");
    poll_pending_tasks();
    assert_eq!(polls.get(), 2);
    poll_pending_tasks();
    assert_eq!(polls.get(), 2);
    wakers.take();
}

#[test]
fn a_callback_inside_the_registration_neither_polls_twice_nor_gets_lost() {
    let _clean = NothingLeft;
    let log = Log::default();
    let future = HostFuture::firing_inside(&log, "a");
    let inner = log.clone();
    fdb_spawn(async move {
        future.await;
        inner.note("end");
    });
    assert_eq!(
        log.take(),
        [
            "a registers",
            "a callback",
            "a woken",
            "a callback ends",
            "a pending",
            "a ready",
            "end"
        ],
        "the hook inside the poll does nothing; the wake-up is served when the poll is over"
    );
}

#[test]
fn a_spawn_inside_a_task_is_polled_at_once_and_its_wake_ups_wait_for_the_outer_poll() {
    let _clean = NothingLeft;
    let log = Log::default();
    let inner = log.clone();
    fdb_spawn(async move {
        inner.note("outer begins");
        let log = inner.clone();
        fdb_spawn(async move {
            log.note("inner begins");
            yield_now().await;
            log.note("inner ends");
        });
        inner.note("outer ends");
    });
    assert_eq!(
        log.take(),
        ["outer begins", "inner begins", "outer ends", "inner ends"]
    );
}

#[test]
fn a_shared_future_wakes_all_its_tasks() {
    let _clean = NothingLeft;
    let log = Log::default();
    let future = HostFuture::new(&log, "a");
    let shared = future.clone().shared();
    for name in ["x", "y", "z"] {
        let (shared, log) = (shared.clone(), log.clone());
        fdb_spawn(async move {
            shared.await;
            log.note(name);
        });
    }
    drop(shared);
    log.take();
    future.callback();
    let mut events = log.take();
    events.retain(|event| ["x", "y", "z"].contains(&event.as_str()));
    events.sort();
    assert_eq!(events, ["x", "y", "z"]);
}

#[test]
fn select_and_join_work_as_they_are() {
    let _clean = NothingLeft;
    let log = Log::default();
    let (a, b) = (HostFuture::new(&log, "a"), HostFuture::new(&log, "b"));
    let (left, right, inner) = (a.clone(), b.clone(), log.clone());
    fdb_spawn(async move {
        futures::select! {
            () = left.clone().fuse() => inner.note("left"),
            () = right.clone().fuse() => inner.note("right"),
        }
        futures::join!(left, right);
        inner.note("both");
    });
    b.callback();
    assert!(log.take().contains(&"right".to_owned()));
    a.callback();
    assert!(log.take().contains(&"both".to_owned()));
}

#[test]
fn a_task_woken_while_it_is_dropped_is_not_polled() {
    /// Wakes its own task when it is dropped, and lets the executor run.
    struct Restless(Log, Option<Waker>);
    impl Future for Restless {
        type Output = ();
        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            self.0.note("polled");
            self.1 = Some(context.waker().clone());
            Poll::Pending
        }
    }
    impl Drop for Restless {
        fn drop(&mut self) {
            self.0.note("drop begins");
            if let Some(waker) = self.1.take() {
                waker.wake();
            }
            poll_pending_tasks();
            self.0.note("drop ends");
        }
    }
    let _clean = NothingLeft;
    let log = Log::default();
    let task = spawn(Restless(log.clone(), None));
    task.abort();
    assert_eq!(log.take(), ["polled", "drop begins", "drop ends"]);
}
