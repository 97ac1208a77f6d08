//! Which tasks are woken, and how often.

use shaketable_kernel::{Kernel, Notify, Priority, ProcessSpec};
use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake, Waker};

/// Starts a task that is never ready, and counts its polls.
fn counted(kernel: &Kernel, mut poll: impl FnMut(&mut Context<'_>) + 'static) -> Rc<Cell<u32>> {
    let process = kernel.add_process(ProcessSpec::default());
    let polls = Rc::new(Cell::new(0));
    let count = polls.clone();
    let task = poll_fn(move |cx| {
        count.set(count.get() + 1);
        poll(cx);
        Poll::<()>::Pending
    });
    kernel.spawn(process, Priority::DefaultDelay, task).detach();
    kernel.run_ready().unwrap();
    polls
}

#[test]
fn a_task_that_waits_for_two_things_which_happen_at_once_is_polled_once() {
    let kernel = Kernel::simulation(1);
    let (one, other) = (Notify::new(), Notify::new());
    let mut waits = [one.notified(), other.notified()].map(Box::pin);
    let polls = counted(&kernel, move |cx| {
        for wait in &mut waits {
            let _ = wait.as_mut().poll(cx);
        }
    });
    one.notify_all();
    other.notify_all();
    kernel.run_ready().unwrap();
    assert_eq!(polls.get(), 2);
}

#[test]
fn a_wake_up_for_a_kernel_that_is_gone_reaches_no_other() {
    let notify = Notify::new();
    let gone = Kernel::simulation(1);
    // Kept beyond the task that polls it.
    let wait = Rc::new(RefCell::new(Box::pin(notify.notified())));
    let polled = wait.clone();
    counted(&gone, move |cx| {
        let _ = polled.borrow_mut().as_mut().poll(cx);
    });
    gone.shutdown();
    drop(gone);
    let kernel = Kernel::simulation(2);
    let polls = counted(&kernel, |_| {});
    notify.notify_all();
    kernel.run_ready().unwrap();
    assert_eq!(polls.get(), 1);
}

#[test]
fn two_kernels_on_one_thread_wake_their_own_tasks() {
    let notify = Notify::new();
    let kernels = [Kernel::simulation(1), Kernel::simulation(2)];
    let polls = kernels.each_ref().map(|kernel| {
        let mut wait = Box::pin(notify.notified());
        counted(kernel, move |cx| {
            let _ = wait.as_mut().poll(cx);
        })
    });
    notify.notify_all();
    kernels[1].run_ready().unwrap();
    assert_eq!(polls.each_ref().map(|polls| polls.get()), [1, 2]);
    kernels[0].run_ready().unwrap();
    assert_eq!(polls.each_ref().map(|polls| polls.get()), [2, 2]);
}

/// The waker of a combinator: it notes that it was woken, and wakes the task.
struct Own {
    woken: AtomicU32,
    task: Waker,
}

impl Wake for Own {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, Ordering::Relaxed);
        self.task.wake_by_ref();
    }
}

#[test]
fn a_future_that_is_polled_with_a_waker_of_its_own_wakes_that_one() {
    let kernel = Kernel::simulation(1);
    let notify = Notify::new();
    let mut wait = Box::pin(notify.notified());
    let own: Rc<RefCell<Option<Arc<Own>>>> = Rc::default();
    let made = own.clone();
    let polls = counted(&kernel, move |cx| {
        let waker = made
            .borrow_mut()
            .get_or_insert_with(|| {
                Arc::new(Own {
                    woken: AtomicU32::new(0),
                    task: cx.waker().clone(),
                })
            })
            .clone();
        let _ = wait
            .as_mut()
            .poll(&mut Context::from_waker(&Waker::from(waker)));
    });
    notify.notify_all();
    kernel.run_ready().unwrap();
    let own = own.borrow();
    assert_eq!(own.as_ref().unwrap().woken.load(Ordering::Relaxed), 1);
    assert_eq!(polls.get(), 2);
}

#[test]
fn a_task_can_be_woken_from_another_thread() {
    let kernel = Kernel::real(1);
    let waker: Rc<RefCell<Option<Waker>>> = Rc::default();
    let kept = waker.clone();
    let polls = counted(&kernel, move |cx| {
        *kept.borrow_mut() = Some(cx.waker().clone())
    });
    let waker = waker.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            waker.wake_by_ref();
            waker.wake();
        });
    });
    kernel.run_ready().unwrap();
    assert_eq!(polls.get(), 2, "woken twice, polled once more");
}
