//! `spawn`, its handle, and what becomes of a task that is never awaited.

use super::*;

#[test]
fn a_joined_task_gives_its_result_and_is_gone() {
    let _clean = NothingLeft;
    let log = Log::default();
    let future = HostFuture::new(&log, "a");
    let (inner, events) = (future.clone(), log.clone());
    fdb_spawn(async move {
        let token = Token(events.clone(), "child");
        let child = spawn(async move {
            let _token = token;
            inner.await;
            42
        });
        assert!(!child.is_finished());
        events.note(format!("joined {:?}", child.await));
    });
    future.callback();
    let events = log.take();
    let tail = &events[events.len() - 3..];
    assert_eq!(tail, ["drop child", "joined Ok(42)", "a callback ends"]);
}

#[test]
fn an_aborted_task_is_dropped_at_once_and_says_so() {
    let _clean = NothingLeft;
    let log = Log::default();
    let future = HostFuture::new(&log, "a");
    let (inner, events) = (future.clone(), log.clone());
    fdb_spawn(async move {
        let token = Token(events.clone(), "child");
        let child = spawn(async move {
            let _token = token;
            inner.await;
        });
        child.abort();
        events.note("aborted");
        let error = child.await.expect_err("aborted");
        assert!(error.is_aborted() && !error.is_panic());
        events.note(error.to_string());
    });
    assert_eq!(
        log.take(),
        [
            "a registers",
            "a pending",
            "drop child",
            "aborted",
            "the task was aborted"
        ]
    );
    future.callback();
}

#[test]
fn a_task_that_aborts_itself_is_dropped_when_its_poll_returns() {
    let _clean = NothingLeft;
    let log = Log::default();
    let future = HostFuture::new(&log, "a");
    let slot: Rc<RefCell<Option<JoinHandle<()>>>> = Rc::default();
    let (inner, own, events) = (future.clone(), slot.clone(), log.clone());
    let task = spawn(async move {
        let _token = Token(events.clone(), "task");
        inner.await;
        own.borrow().as_ref().expect("a handle").abort();
        events.note("still here");
        yield_now().await;
        events.note("never");
    });
    *slot.borrow_mut() = Some(task);
    log.take();
    future.callback();
    assert_eq!(
        log.take(),
        [
            "a callback",
            "a woken",
            "a ready",
            "still here",
            "drop task",
            "a callback ends"
        ]
    );
    assert!(slot.take().is_some_and(|task| task.is_finished()));
}

#[test]
fn a_detached_task_runs_on() {
    let _clean = NothingLeft;
    let log = Log::default();
    let future = HostFuture::new(&log, "a");
    let (inner, events) = (future.clone(), log.clone());
    drop(spawn(async move {
        inner.await;
        events.note("ran on");
        Token(events.clone(), "output")
    }));
    future.callback();
    let events = log.take();
    assert_eq!(
        events[events.len() - 3..],
        ["ran on", "drop output", "a callback ends"]
    );
}

#[test]
fn the_joiner_of_a_stuck_task_is_told() {
    let _clean = NothingLeft;
    let outcome: Rc<RefCell<Option<String>>> = Rc::default();
    let result = outcome.clone();
    fdb_spawn(async move {
        let child = spawn(std::future::pending::<()>());
        let error = child.await.expect_err("stuck");
        *result.borrow_mut() = Some(error.to_string());
    });
    let outcome = outcome.take().expect("the joiner ran");
    assert!(outcome.contains("nothing held a waker"), "{outcome}");
}
