//! The way in for other threads, and the clock of the machine.

use crate::{Echo, process, serve};
use shaketable_kernel::{Inbox, Kernel, Priority, ProcessSpec, Shared, Time};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

fn thread<T: Send + 'static>(
    run: impl FnOnce() -> T + Send + 'static,
) -> std::thread::JoinHandle<T> {
    std::thread::Builder::new().spawn(run).unwrap()
}

#[test]
fn posts_run_later_in_order_and_may_post_again() {
    let kernel = Kernel::simulation(1);
    let (sender, receiver) = mpsc::channel();
    for n in 0..3 {
        let sender = sender.clone();
        kernel.inbox().post(move |kernel| {
            sender.send(n).unwrap();
            kernel.inbox().post(move |_| sender.send(n + 10).unwrap());
        });
    }
    assert!(receiver.try_recv().is_err(), "not inside the call");
    assert!(!kernel.is_idle());
    kernel.run_ready().unwrap();
    assert_eq!(
        receiver.try_iter().collect::<Vec<_>>(),
        [0, 1, 2, 10, 11, 12]
    );
}

#[test]
fn posts_from_another_thread_keep_their_order() {
    let kernel = Kernel::simulation(1);
    let inbox = kernel.inbox();
    let (sender, receiver) = mpsc::channel();
    thread(move || {
        for n in 0..1000 {
            let sender = sender.clone();
            inbox.post(move |_| sender.send(n).unwrap());
        }
    })
    .join()
    .unwrap();
    kernel.run_ready().unwrap();
    assert_eq!(
        receiver.try_iter().collect::<Vec<_>>(),
        (0..1000).collect::<Vec<_>>()
    );
}

#[test]
fn only_the_kernels_own_thread_is_the_kernels_thread() {
    let kernel = Kernel::simulation(1);
    let inbox = kernel.inbox();
    assert!(inbox.is_kernel_thread());
    assert!(!thread(move || inbox.is_kernel_thread()).join().unwrap());
    assert!(!Inbox::new().is_kernel_thread(), "there is no kernel yet");
}

/// Notes when it is dropped.
struct Noted(Arc<AtomicBool>);
impl Drop for Noted {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

#[test]
fn posts_to_a_kernel_that_is_gone_are_dropped_without_a_word() {
    for shutdown in [false, true] {
        let kernel = Kernel::simulation(1);
        let inbox = kernel.inbox();
        let dropped = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let [before, after] = dropped.clone().map(Noted);
        inbox.post(move |_| drop(before));
        let _handle = shutdown.then(|| {
            kernel.shutdown();
            kernel.clone()
        });
        drop(kernel);
        inbox.post(move |_| drop(after));
        assert!(dropped.iter().all(|dropped| dropped.load(Ordering::SeqCst)));
    }
}

#[test]
fn a_post_wakes_a_kernel_that_waits_and_stops_it() {
    let stop = Arc::new(AtomicBool::new(false));
    let inbox = Inbox::new();
    let (sender, receiver) = mpsc::channel();
    // Posted before the kernel exists.
    let early = sender.clone();
    inbox.post(move |_| early.send(0).unwrap());
    let network = thread({
        let (stop, inbox) = (stop.clone(), inbox.clone());
        move || Kernel::real_with(1, inbox).run_real(&stop)
    });
    assert_eq!(receiver.recv(), Ok(0));
    // A round trip each time, so that the kernel has gone to wait in between.
    for n in 1..100 {
        let sender = sender.clone();
        inbox.post(move |kernel| {
            let later = kernel.now() + 0.0001;
            kernel.call_at(later, move |kernel| {
                assert!(kernel.now() >= later);
                sender.send(n).unwrap();
            });
        });
        assert_eq!(receiver.recv(), Ok(n));
    }
    stop.store(true, Ordering::Release);
    inbox.post(|_| ());
    network.join().unwrap();
    inbox.post(|_| panic!("it has stopped"));
}

#[test]
fn the_real_clock_moves_by_itself_and_sleeps_take_at_least_their_time() {
    let kernel = Kernel::real(1);
    assert!(!kernel.is_simulation());
    let start = kernel.now();
    kernel.block_on(kernel.sleep(0.002)).unwrap();
    assert!(kernel.now() - start >= 0.002);
}

#[test]
fn real_timers_fire_in_the_order_of_their_times() {
    let kernel = Kernel::real(1);
    let order = Rc::new(RefCell::new(Vec::new()));
    let start = kernel.now();
    for n in [3, 1, 2, 0] {
        let order = order.clone();
        kernel.call_at(start + 0.0005 * f64::from(n), move |_| {
            order.borrow_mut().push(n)
        });
    }
    kernel.block_on(kernel.sleep(0.005)).unwrap();
    assert_eq!(*order.borrow(), [0, 1, 2, 3]);
}

#[test]
fn requests_over_the_real_kernels_network_need_no_timer() {
    let kernel = Kernel::real(1);
    let (a, b) = (process(&kernel, 1), process(&kernel, 2));
    let endpoint = serve(&kernel, b);
    let request = endpoint.request(a, Echo(1));
    assert_eq!(kernel.next_timer(), None);
    assert_eq!(kernel.block_on(request), Ok(Ok(1)));
}

#[test]
fn a_task_can_be_woken_by_another_thread() {
    let kernel = Kernel::real(1);
    let process = kernel.add_process(ProcessSpec::default());
    let (waker_sender, waker_receiver) = mpsc::channel::<std::task::Waker>();
    let wakes = Arc::new(AtomicUsize::new(0));
    let waking = thread({
        let wakes = wakes.clone();
        move || {
            for waker in waker_receiver {
                wakes.fetch_add(1, Ordering::SeqCst);
                waker.wake();
            }
        }
    });
    let task = kernel.spawn(process, Priority::DefaultDelay, {
        let wakes = wakes.clone();
        std::future::poll_fn(move |cx| {
            if wakes.load(Ordering::SeqCst) == 20 {
                return std::task::Poll::Ready(());
            }
            waker_sender.send(cx.waker().clone()).unwrap();
            std::task::Poll::Pending
        })
    });
    kernel.block_on(task).unwrap();
    kernel.shutdown();
    waking.join().unwrap();
    assert_eq!(wakes.load(Ordering::SeqCst), 20);
}

#[test]
fn block_on_waits_for_what_another_thread_will_post() {
    let kernel = Kernel::real(1);
    let inbox = kernel.inbox();
    let result = Shared::new();
    let promise = result.clone();
    let process = kernel.add_process(ProcessSpec::default());
    // The closure must be `Send` and the promise is not, so a task keeps it.
    let go = Arc::new(AtomicBool::new(false));
    let (kernel2, go2) = (kernel.clone(), go.clone());
    kernel
        .spawn(process, Priority::DefaultDelay, async move {
            while !go2.load(Ordering::SeqCst) {
                kernel2.sleep(0.0002).await;
            }
            promise.set(7);
        })
        .detach();
    let other = thread(move || inbox.post(move |_| go.store(true, Ordering::SeqCst)));
    assert_eq!(kernel.block_on(result.wait()), Ok(7));
    other.join().unwrap();
}

#[test]
fn a_simulation_does_not_look_at_the_machines_clock() {
    let kernel = Kernel::simulation(1);
    assert_eq!(kernel.now(), Time::ZERO);
    kernel.block_on(kernel.sleep(1e9)).unwrap();
    assert_eq!(kernel.now(), Time::from_secs(1e9));
}
