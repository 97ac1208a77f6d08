//! Tasks, timers and the loop.

use futures::{FutureExt, StreamExt, select};
use shaketable_kernel::{Deadlock, Kernel, Priority, ProcessId, ProcessSpec, Time, channel};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

fn one_process(seed: u64) -> (Kernel, ProcessId) {
    let kernel = Kernel::simulation(seed);
    let process = kernel.add_process(ProcessSpec::default());
    (kernel, process)
}

/// A place where tasks note what they do, in order.
type Log = Rc<RefCell<Vec<&'static str>>>;

#[test]
fn a_sleep_takes_exactly_its_time() {
    let kernel = Kernel::simulation(1);
    kernel.block_on(kernel.sleep(1.5)).unwrap();
    assert_eq!(kernel.now(), Time::from_nanos(1_500_000_000));
}

#[test]
fn sleeping_for_no_time_lets_the_others_run_first_and_time_stand_still() {
    let (kernel, process) = one_process(1);
    let log = Log::default();
    for name in ["a", "b"] {
        let (kernel2, log) = (kernel.clone(), log.clone());
        let task = async move {
            log.borrow_mut().push(name);
            kernel2.sleep(if name == "a" { 0.0 } else { -5.0 }).await;
            log.borrow_mut().push(name);
        };
        kernel.spawn(process, Priority::DefaultDelay, task).detach();
    }
    kernel.run_ready().unwrap();
    assert_eq!(*log.borrow(), ["a", "b", "a", "b"]);
    assert_eq!(kernel.now(), Time::ZERO);
}

#[test]
fn a_sleep_beyond_the_end_of_the_clock_never_ends_and_sets_no_timer() {
    let kernel = Kernel::simulation(1);
    for seconds in [4e12, f64::INFINITY, f64::NAN] {
        let result = kernel.block_on(kernel.sleep(seconds));
        assert!(
            matches!(result, Err(Deadlock::NothingToDo { .. })),
            "{seconds}: {result:?}"
        );
    }
    assert_eq!(kernel.now(), Time::ZERO);
}

#[test]
fn equal_timers_fire_in_the_order_they_were_set() {
    let (kernel, process) = one_process(1);
    let log = Rc::new(RefCell::new(Vec::new()));
    for n in 0..200 {
        let sleep = kernel.sleep(if n % 2 == 0 { 1.0 } else { 0.5 });
        let log = log.clone();
        let task = async move {
            sleep.await;
            log.borrow_mut().push(n);
        };
        kernel.spawn(process, Priority::DefaultDelay, task).detach();
    }
    kernel.run_until(Time::NEVER).unwrap();
    let expected: Vec<i32> = (0..200)
        .filter(|n| n % 2 == 1)
        .chain((0..200).filter(|n| n % 2 == 0))
        .collect();
    assert_eq!(*log.borrow(), expected);
}

#[test]
fn the_highest_priority_runs_first_and_the_inbox_stands_between_promises_and_delays() {
    let (kernel, process) = one_process(1);
    let log = Log::default();
    let spawn = |name: &'static str, priority| {
        let log = log.clone();
        kernel
            .spawn(
                process,
                priority,
                async move { log.borrow_mut().push(name) },
            )
            .detach();
    };
    spawn("low", Priority::Low);
    spawn("delay", Priority::DefaultDelay);
    let (sender, mut receiver) = std::sync::mpsc::channel();
    kernel.inbox().post(move |kernel| {
        assert_eq!(kernel.now(), Time::ZERO);
        sender.send("inbox").unwrap();
    });
    spawn("promise", Priority::DefaultPromiseEndpoint);
    spawn("max", Priority::Max);
    let watcher = log.clone();
    kernel
        .spawn(process, Priority::DefaultOnMainThread, async move {
            // Same priority as the inbox, queued after it.
            watcher.borrow_mut().push(receiver.try_recv().unwrap());
            drop(std::mem::replace(
                &mut receiver,
                std::sync::mpsc::channel().1,
            ));
        })
        .detach();
    kernel.run_ready().unwrap();
    assert_eq!(*log.borrow(), ["max", "promise", "inbox", "delay", "low"]);
}

#[test]
fn awaiting_a_task_gives_its_output() {
    let (kernel, process) = one_process(1);
    let kernel2 = kernel.clone();
    let task = kernel.spawn(process, Priority::DefaultDelay, async move {
        kernel2.sleep(1.0).await;
        42
    });
    assert_eq!(kernel.block_on(task), Ok(42));
}

/// Notes when it is dropped.
struct Noted(Rc<Cell<bool>>);
impl Drop for Noted {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[test]
fn dropping_a_task_drops_its_future_at_once() {
    let (kernel, process) = one_process(1);
    let dropped = Rc::new(Cell::new(false));
    let noted = Noted(dropped.clone());
    let kernel2 = kernel.clone();
    let task = kernel.spawn(process, Priority::DefaultDelay, async move {
        kernel2.sleep(1.0).await;
        drop(noted);
    });
    kernel.run_ready().unwrap();
    assert!(!dropped.get());
    drop(task);
    assert!(dropped.get());
    assert_eq!(kernel.next_timer(), None, "its timer went with it");
    assert_eq!(kernel.task_count(), 0);
}

#[test]
fn a_task_that_drops_its_own_handle_ends_after_the_poll() {
    let (kernel, process) = one_process(1);
    let dropped = Rc::new(Cell::new(false));
    let noted = Noted(dropped.clone());
    let reached = Rc::new(Cell::new(false));
    let (kernel2, reached2) = (kernel.clone(), reached.clone());
    let (sender, mut receiver) = channel();
    let task = kernel.spawn(process, Priority::DefaultDelay, async move {
        let own = receiver.recv().await;
        drop(own);
        reached2.set(true);
        kernel2.sleep(1.0).await;
        drop(noted);
        panic!("a cancelled task went on");
    });
    kernel.run_ready().unwrap();
    assert!(sender.send(task).is_ok());
    kernel.run_until(Time::from_secs(5.0)).unwrap();
    assert!(reached.get() && dropped.get());
    assert_eq!(kernel.task_count(), 0);
}

#[test]
fn a_task_woken_twice_runs_once() {
    let (kernel, process) = one_process(1);
    let polls = Rc::new(Cell::new(0));
    let waker = Rc::new(RefCell::new(None));
    let (polls2, waker2) = (polls.clone(), waker.clone());
    let task = std::future::poll_fn(move |cx| {
        polls2.set(polls2.get() + 1);
        *waker2.borrow_mut() = Some(cx.waker().clone());
        std::task::Poll::<()>::Pending
    });
    let _task = kernel.spawn(process, Priority::DefaultDelay, task);
    kernel.run_ready().unwrap();
    let waker = waker.borrow().clone().unwrap();
    waker.wake_by_ref();
    waker.wake_by_ref();
    kernel.run_ready().unwrap();
    assert_eq!(polls.get(), 2);
    waker.wake();
    kernel.run_ready().unwrap();
    assert_eq!(polls.get(), 3);
}

#[test]
fn a_waker_that_outlives_its_task_wakes_nobody() {
    let (kernel, process) = one_process(1);
    let waker = Rc::new(RefCell::new(None));
    let waker2 = waker.clone();
    let task = kernel.spawn(process, Priority::DefaultDelay, async move {
        std::future::poll_fn(|cx| {
            *waker2.borrow_mut() = Some(cx.waker().clone());
            std::task::Poll::Ready(())
        })
        .await;
    });
    kernel.block_on(task).unwrap();
    let polls = Rc::new(Cell::new(0));
    let polls2 = polls.clone();
    let next = std::future::poll_fn(move |_| {
        polls2.set(polls2.get() + 1);
        std::task::Poll::<()>::Pending
    });
    let _next = kernel.spawn(process, Priority::DefaultDelay, next);
    kernel.run_ready().unwrap();
    waker.take().unwrap().wake();
    kernel.run_ready().unwrap();
    assert_eq!(
        polls.get(),
        1,
        "the new task may sit in the old one's slot, but is not the old one"
    );
}

#[test]
fn a_panic_leaves_the_loop_and_the_kernel_stays_usable() {
    let (kernel, process) = one_process(1);
    kernel
        .spawn(process, Priority::DefaultDelay, async { panic!("boom") })
        .detach();
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| kernel.run_ready()));
    assert_eq!(*result.unwrap_err().downcast::<&str>().unwrap(), "boom");
    assert_eq!(kernel.task_count(), 0);
    assert_eq!(kernel.current_process(), None);
    kernel.block_on(kernel.sleep(1.0)).unwrap();
}

#[test]
fn select_and_collections_of_futures_work() {
    let kernel = Kernel::simulation(1);
    let winner = kernel.block_on(async {
        select! {
            () = kernel.sleep(2.0).fuse() => "slow",
            () = kernel.sleep(1.0).fuse() => "fast",
        }
    });
    assert_eq!(winner, Ok("fast"));
    let sleeps: futures::stream::FuturesUnordered<_> = [3.0, 1.0, 2.0]
        .into_iter()
        .map(|s| kernel.sleep(s).map(move |()| s as u32))
        .collect();
    assert_eq!(
        kernel.block_on(sleeps.collect::<Vec<_>>()),
        Ok(vec![1, 2, 3])
    );
}

#[test]
fn a_timeout_gives_up_at_its_time_and_not_before() {
    let kernel = Kernel::simulation(1);
    assert_eq!(
        kernel.block_on(kernel.timeout(1.0, kernel.sleep(2.0))),
        Ok(None)
    );
    assert_eq!(kernel.now(), Time::from_secs(1.0));
    assert_eq!(
        kernel.block_on(kernel.timeout(1.0, kernel.sleep(0.5))),
        Ok(Some(()))
    );
    assert_eq!(kernel.now(), Time::from_secs(1.5));
    assert_eq!(kernel.next_timer(), None);
}

#[test]
fn a_dead_lock_is_told() {
    let (kernel, process) = one_process(1);
    let _stuck = kernel.spawn(
        process,
        Priority::DefaultDelay,
        std::future::pending::<()>(),
    );
    assert_eq!(
        kernel.block_on(std::future::pending::<()>()),
        Err(Deadlock::NothingToDo {
            time: Time::ZERO,
            tasks: 1
        })
    );
    kernel.run_ready().unwrap();
    assert!(kernel.is_idle());
    assert!(!kernel.advance());
}

#[test]
fn time_passes_until_a_task_is_ready_a_moment_is_reached_or_enough_moments_have_passed() {
    let (kernel, process) = one_process(1);
    for second in 1..=6 {
        kernel.call_at(Time::from_secs(f64::from(second)), |_| {});
    }
    let sleep = kernel.sleep(4.5);
    kernel
        .spawn(process, Priority::DefaultDelay, sleep)
        .detach();
    kernel.run_ready().unwrap();
    let moved = RefCell::new(Vec::new());
    let advance = |until: f64, moments: u32| {
        let until = Time::from_secs(until);
        let note = |now: Time| moved.borrow_mut().push(now.as_secs());
        let any = kernel.advance_until_ready(until, moments, note);
        (any, moved.take())
    };
    assert_eq!(advance(9.0, 2), (true, vec![1.0, 2.0]), "enough moments");
    assert_eq!(advance(2.5, 9), (true, vec![3.0]), "the first not before");
    assert_eq!(advance(9.0, 9), (true, vec![4.0, 4.5]), "a task is ready");
    kernel.run_ready().unwrap();
    assert_eq!(advance(9.0, 9), (false, vec![5.0, 6.0]), "nothing is left");
}

#[test]
fn a_moment_that_uses_up_the_budget_is_not_passed_over() {
    let (kernel, _) = one_process(1);
    kernel.set_budget(3);
    for second in [1.0, 2.0, 2.0, 2.0, 3.0] {
        kernel.call_at(Time::from_secs(second), |_| {});
    }
    assert!(kernel.advance_until_ready(Time::NEVER, 9, |_| {}));
    assert_eq!(kernel.now().as_secs(), 2.0);
    assert!(kernel.run_ready().is_err());
}

#[test]
fn a_task_that_spins_is_told() {
    let (kernel, process) = one_process(1);
    kernel.set_budget(1000);
    let kernel2 = kernel.clone();
    kernel
        .spawn(process, Priority::DefaultDelay, async move {
            kernel2.sleep(3.0).await;
            loop {
                kernel2.yield_now().await;
            }
        })
        .detach();
    let spinning = kernel.run_until(Time::from_secs(10.0)).unwrap_err();
    assert_eq!(
        (spinning.time, spinning.events),
        (Time::from_secs(3.0), 1000)
    );
    assert_eq!(spinning.process, Some(process));
}

#[test]
fn timers_that_keep_setting_one_another_for_now_are_told() {
    fn again(kernel: &Kernel) {
        kernel.call_at(kernel.now(), again);
    }
    let kernel = Kernel::simulation(1);
    kernel.set_budget(1000);
    again(&kernel);
    assert!(kernel.run_until(Time::from_secs(1.0)).is_err());
    let result = kernel.block_on(kernel.sleep(1.0));
    assert!(matches!(result, Err(Deadlock::Spinning(_))), "{result:?}");
}

#[test]
fn a_budget_counts_anew_whenever_time_moves() {
    let kernel = Kernel::simulation(1);
    kernel.set_budget(100);
    kernel
        .block_on(async {
            for _ in 0..50 {
                for _ in 0..40 {
                    kernel.yield_now().await;
                }
                kernel.sleep(0.1).await;
            }
        })
        .unwrap();
}

#[test]
fn no_event_is_lost_when_a_budget_ends() {
    let (kernel, process) = one_process(1);
    kernel.set_budget(10);
    let ran = Rc::new(Cell::new(0));
    for _ in 0..25 {
        let ran = ran.clone();
        let task = async move { ran.set(ran.get() + 1) };
        kernel.spawn(process, Priority::DefaultDelay, task).detach();
    }
    assert!(kernel.run_ready().is_err());
    assert_eq!(ran.get(), 10);
    kernel.set_budget(100);
    kernel.run_ready().unwrap();
    assert_eq!(ran.get(), 25);
}

#[test]
fn a_task_knows_its_process() {
    let (kernel, process) = one_process(1);
    let kernel2 = kernel.clone();
    let task = kernel.spawn(process, Priority::DefaultDelay, async move {
        kernel2.current_process()
    });
    assert_eq!(kernel.block_on(task), Ok(Some(process)));
    assert_eq!(kernel.current_process(), None);
}

#[test]
fn shutting_down_frees_tasks_that_hold_their_own_kernel() {
    let (kernel, process) = one_process(1);
    let dropped = Rc::new(Cell::new(false));
    let noted = Noted(dropped.clone());
    let kernel2 = kernel.clone();
    kernel
        .spawn(process, Priority::DefaultDelay, async move {
            let _noted = noted;
            kernel2.sleep(1.0).await;
        })
        .detach();
    kernel.run_ready().unwrap();
    let sleep = kernel.sleep(1.0);
    kernel.shutdown();
    assert!(dropped.get());
    assert_eq!((kernel.task_count(), kernel.next_timer()), (0, None));
    assert!(kernel.block_on(sleep).is_err(), "time has ended");
}
