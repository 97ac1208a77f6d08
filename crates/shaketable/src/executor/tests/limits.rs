//! Tasks that panic, spin or breed.

use super::*;

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
            .is_some_and(|place| place.contains("executor/tests/limits.rs"))
    );
    assert!(
        report.backtrace().contains("tests"),
        "{}",
        report.backtrace()
    );
}

/// Panics when it is dropped.
struct Grenade;

impl Drop for Grenade {
    fn drop(&mut self) {
        panic!("boom");
    }
}

#[test]
fn a_future_that_panics_when_it_is_dropped_after_its_end_is_a_panic_of_the_task() {
    struct Ready(Grenade);
    impl Future for Ready {
        type Output = u32;
        fn poll(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<u32> {
            let _ = &self.0;
            Poll::Ready(1)
        }
    }
    let _clean = NothingLeft;
    let outcome: Rc<RefCell<Option<JoinError>>> = Rc::default();
    let result = outcome.clone();
    fdb_spawn(async move {
        *result.borrow_mut() = spawn(Ready(Grenade)).await.err();
    });
    let error = outcome.take().expect("an error");
    assert_eq!(error.panic().map(PanicReport::message), Some("boom"));
}

#[test]
fn a_future_that_panics_while_it_is_dropped_does_not_unwind_through_the_executor() {
    let _clean = NothingLeft;
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
