//! The life of a task, as the charts in `docs/executor.md` draw it.

use super::*;

#[test]
fn the_first_poll_registers_a_callback_and_returns_to_the_host() {
    let _clean = NothingLeft;
    let log = Log::default();
    let future = HostFuture::new(&log, "a");
    let task = {
        let (log, future) = (log.clone(), future.clone());
        let token = Token(log.clone(), "future");
        async move {
            let _token = token;
            log.note("begin");
            future.await;
            log.note("end");
        }
    };
    fdb_spawn(task);
    log.note("spawned");
    assert_eq!(
        log.take(),
        ["begin", "a registers", "a pending", "spawned"],
        "polled at once, pending, and the future is kept"
    );
    assert_eq!(live_tasks(), 1);
    future.callback();
    assert_eq!(
        log.take(),
        [
            "a callback",
            "a woken",
            "a ready",
            "end",
            "drop future",
            "a callback ends"
        ],
        "wake queues, poll runs, and a ready future is dropped at once"
    );
    assert_eq!(live_tasks(), 0, "the last reference went with the wake-up");
}

#[test]
fn a_second_future_goes_round_once_more() {
    let _clean = NothingLeft;
    let log = Log::default();
    let (first, second) = (HostFuture::new(&log, "a"), HostFuture::new(&log, "b"));
    let task = {
        let (log, first, second) = (log.clone(), first.clone(), second.clone());
        let token = Token(log.clone(), "future");
        async move {
            let _token = token;
            first.await;
            log.note("between");
            second.await;
            log.note("end");
        }
    };
    fdb_spawn(task);
    assert_eq!(log.take(), ["a registers", "a pending"]);
    first.callback();
    assert_eq!(
        log.take(),
        [
            "a callback",
            "a woken",
            "a ready",
            "between",
            "b registers",
            "b pending",
            "a callback ends"
        ]
    );
    second.callback();
    assert_eq!(
        log.take(),
        [
            "b callback",
            "b woken",
            "b ready",
            "end",
            "drop future",
            "b callback ends"
        ]
    );
}

#[test]
fn a_task_without_any_wait_is_over_when_spawn_returns() {
    let _clean = NothingLeft;
    let log = Log::default();
    let token = Token(log.clone(), "future");
    let inner = log.clone();
    fdb_spawn(async move {
        let _token = token;
        inner.note("ran");
    });
    log.note("spawned");
    assert_eq!(log.take(), ["ran", "drop future", "spawned"]);
    assert_eq!(live_tasks(), 0);
}

#[test]
fn a_future_is_dropped_when_ready_though_wakers_live_on() {
    let _clean = NothingLeft;
    let log = Log::default();
    let kept: Rc<RefCell<Option<Waker>>> = Rc::default();
    let token = Token(log.clone(), "future");
    let keep = kept.clone();
    fdb_spawn(async move {
        let _token = token;
        std::future::poll_fn(|context| {
            *keep.borrow_mut() = Some(context.waker().clone());
            Poll::Ready(())
        })
        .await;
    });
    assert_eq!(log.take(), ["drop future"]);
    assert_eq!(
        live_tasks(),
        1,
        "a waker keeps the task, though not the future"
    );
    let waker = kept.take().expect("a waker");
    waker.wake_by_ref();
    waker.wake();
    poll_pending_tasks();
    assert_eq!(
        log.take(),
        Vec::<String>::new(),
        "waking a finished task does nothing"
    );
    assert_eq!(live_tasks(), 0);
}

#[test]
fn a_task_that_nothing_can_wake_is_dropped_with_its_last_waker() {
    let _clean = NothingLeft;
    let log = Log::default();
    let future = HostFuture::new(&log, "a");
    let token = Token(log.clone(), "future");
    let inner = future.clone();
    fdb_spawn(async move {
        let _token = token;
        inner.await;
    });
    log.take();
    let waker = future.state.waker.take();
    drop(waker);
    assert_eq!(log.take(), ["drop future"]);
    assert_eq!(live_tasks(), 0);
}
