//! The executor on its own, without a host: life cycle, order of events, and that nothing leaks.
//!
//! `HostFuture` plays a FoundationDB future the way the crate `foundationdb` drives one: the first
//! pending poll registers the waker and a callback; the callback wakes, and then calls the hook.

use super::queue::live_tasks;
use super::*;
use crate::yield_now;
use futures::FutureExt;
use futures::channel::mpsc;
use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

/// What happened, in order.
#[derive(Clone, Default)]
struct Log(Rc<RefCell<Vec<String>>>);

impl Log {
    fn note(&self, event: impl Into<String>) {
        self.0.borrow_mut().push(event.into());
    }

    fn take(&self) -> Vec<String> {
        self.0.take()
    }
}

/// Notes that it was dropped.
struct Token(Log, &'static str);

impl Drop for Token {
    fn drop(&mut self) {
        self.0.note(format!("drop {}", self.1));
    }
}

/// The simulator's side of a future.
#[derive(Clone)]
struct HostFuture {
    name: &'static str,
    log: Log,
    state: Rc<State>,
}

#[derive(Default)]
struct State {
    ready: Cell<bool>,
    registered: Cell<bool>,
    waker: RefCell<Option<Waker>>,
    /// The future becomes ready between the question and the registration of the callback.
    fires_inside: Cell<bool>,
}

impl HostFuture {
    fn new(log: &Log, name: &'static str) -> Self {
        HostFuture {
            name,
            log: log.clone(),
            state: Rc::default(),
        }
    }

    fn firing_inside(log: &Log, name: &'static str) -> Self {
        let future = HostFuture::new(log, name);
        future.state.fires_inside.set(true);
        future
    }

    /// What FoundationDB does when it resolves a future: wake up, then poll.
    fn callback(&self) {
        self.log.note(format!("{} callback", self.name));
        self.state.ready.set(true);
        let waker = self.state.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
        self.log.note(format!("{} woken", self.name));
        poll_pending_tasks();
        self.log.note(format!("{} callback ends", self.name));
    }
}

impl Future for HostFuture {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.state.ready.get() {
            self.log.note(format!("{} ready", self.name));
            return Poll::Ready(());
        }
        *self.state.waker.borrow_mut() = Some(context.waker().clone());
        if !self.state.registered.replace(true) {
            self.log.note(format!("{} registers", self.name));
            if self.state.fires_inside.get() {
                self.callback();
            }
        }
        self.log.note(format!("{} pending", self.name));
        Poll::Pending
    }
}

/// Fails a test that leaves a task behind on this thread. Declared first, dropped last.
struct NothingLeft;

impl Drop for NothingLeft {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(live_tasks(), 0, "tasks are left");
        }
    }
}

/// Runs `body` to its end on a thread of its own.
fn on_another_thread(body: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new()
        .name("stranger".to_owned())
        .spawn(body)
        .expect("a thread")
        .join()
        .expect("no panic");
}

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

#[test]
fn a_panic_stays_in_its_task_and_reaches_the_joiner_with_message_and_place() {
    let _clean = NothingLeft;
    let outcome: Rc<RefCell<Option<JoinError>>> = Rc::default();
    let result = outcome.clone();
    fdb_spawn(async move {
        let child = spawn(async {
            yield_now().await;
            panic!("out of {}", "eggs");
        });
        *result.borrow_mut() = child.await.err();
    });
    let error = outcome.take().expect("an error");
    let report = error.panic().expect("a panic");
    assert_eq!(report.message(), "out of eggs");
    assert!(
        report
            .place()
            .is_some_and(|place| place.contains("executor/tests.rs"))
    );
    assert!(
        report.backtrace().contains("tests"),
        "{}",
        report.backtrace()
    );
}

#[test]
fn a_future_that_panics_while_it_is_dropped_does_not_unwind_through_the_executor() {
    let _clean = NothingLeft;
    struct Grenade;
    impl Drop for Grenade {
        fn drop(&mut self) {
            panic!("boom");
        }
    }
    let log = Log::default();
    let events = log.clone();
    fdb_spawn(async move {
        let child = spawn(async {
            let _grenade = Grenade;
            std::future::pending::<()>().await;
        });
        let _ = child.await;
        events.note("alive");
    });
    assert_eq!(log.take(), ["alive"]);
}

#[test]
fn a_task_that_spins_is_stopped_and_the_others_go_on() {
    let _clean = NothingLeft;
    let log = Log::default();
    let future = HostFuture::new(&log, "a");
    let (inner, events) = (future.clone(), log.clone());
    set_poll_budget(1000);
    fdb_spawn(async move {
        inner.await;
        let spinner = spawn(async {
            loop {
                yield_now().await;
            }
        });
        let error: JoinError = spinner.await.map(|never: ()| never).expect_err("stopped");
        events.note(error.to_string());
    });
    future.callback();
    set_poll_budget(1_000_000);
    let events = log.take();
    let error = events.iter().find(|event| event.contains("stopped"));
    assert!(
        error.is_some_and(|e| e.contains("polled 1000 times")),
        "{events:?}"
    );
}

#[test]
fn tasks_that_spawn_each_other_for_ever_are_stopped_before_the_stack_is_full() {
    let _clean = NothingLeft;
    thread_local! {
        static BORN: Cell<u32> = const { Cell::new(0) };
    }
    fn breed() {
        BORN.set(BORN.get() + 1);
        fdb_spawn(async {
            breed();
        });
    }
    set_poll_budget(100);
    breed();
    assert!((1000..5000).contains(&BORN.get()), "{}", BORN.get());
}

#[test]
fn a_wake_up_from_another_thread_arrives_at_home() {
    let _clean = NothingLeft;
    let log = Log::default();
    let (sender, receiver) = futures::channel::oneshot::channel();
    let events = log.clone();
    fdb_spawn(async move {
        let number: i32 = receiver.await.expect("sent");
        events.note(format!("got {number}"));
    });
    on_another_thread(move || sender.send(7).expect("waiting"));
    assert_eq!(
        log.take(),
        Vec::<String>::new(),
        "nothing runs on the other thread"
    );
    poll_pending_tasks();
    assert_eq!(log.take(), ["got 7"]);
}

#[test]
fn the_last_reference_given_up_on_another_thread_drops_the_future_at_home() {
    let _clean = NothingLeft;
    let log = Log::default();
    let kept: Rc<RefCell<Option<Waker>>> = Rc::default();
    let keep = kept.clone();
    let token = Token(log.clone(), "future");
    fdb_spawn(async move {
        let _token = token;
        std::future::poll_fn(move |context| {
            *keep.borrow_mut() = Some(context.waker().clone());
            Poll::<()>::Pending
        })
        .await;
    });
    let waker = kept.take().expect("a waker");
    on_another_thread(move || drop(waker));
    assert_eq!(log.take(), Vec::<String>::new());
    poll_pending_tasks();
    assert_eq!(log.take(), ["drop future"]);
}

#[test]
fn tasks_left_in_the_queue_are_dropped_when_their_thread_ends() {
    let _clean = NothingLeft;
    let dropped = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
    let count = dropped.clone();
    on_another_thread(move || {
        struct Count(std::sync::Arc<std::sync::atomic::AtomicU32>);
        impl Drop for Count {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let kept: Rc<RefCell<Option<Waker>>> = Rc::default();
        let keep = kept.clone();
        let token = Count(count);
        fdb_spawn(async move {
            let _token = token;
            std::future::poll_fn(move |context| {
                *keep.borrow_mut() = Some(context.waker().clone());
                Poll::<()>::Pending
            })
            .await;
        });
        kept.take().expect("a waker").wake();
    });
    assert_eq!(dropped.load(Ordering::Relaxed), 1);
}
