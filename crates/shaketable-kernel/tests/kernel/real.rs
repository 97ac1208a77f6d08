//! The loop of a network thread, on the machine's clock.

use shaketable_kernel::{Inbox, Kernel, Outside, Priority, ProcessSpec};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

#[test]
fn a_task_that_is_always_ready_does_not_hold_the_timers_up() {
    let kernel = Kernel::real(1);
    let process = kernel.add_process(ProcessSpec::default());
    let stop = Rc::new(AtomicBool::new(false));
    let busy = kernel.clone();
    let task = kernel.spawn(process, Priority::DefaultDelay, async move {
        loop {
            busy.yield_now().await;
        }
    });
    let sleeper = kernel.clone();
    let flag = stop.clone();
    let timer = kernel.spawn(process, Priority::DefaultDelay, async move {
        sleeper.sleep(0.01).await;
        flag.store(true, Ordering::Release);
    });
    kernel.run_real(&stop);
    assert!(stop.load(Ordering::Acquire));
    drop((task, timer));
    kernel.shutdown();
}

#[test]
fn what_is_posted_before_the_kernel_exists_runs_first() {
    let inbox = Inbox::new();
    let (sender, receiver) = std::sync::mpsc::channel();
    for number in 0..3 {
        let sender = sender.clone();
        inbox.post(move |_| sender.send(number).unwrap());
    }
    let kernel = Kernel::real_with(1, inbox.clone());
    inbox.post(move |_| sender.send(3).unwrap());
    kernel.run_ready().unwrap();
    assert_eq!(receiver.try_iter().collect::<Vec<_>>(), [0, 1, 2, 3]);
    kernel.shutdown();
}

/// One measurement encloses the other, so both comparisons hold on a machine of any speed.
#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "compares the kernel's clock with the machine's"
)]
fn a_faster_clock_makes_seconds_short() {
    const SPEED: u32 = 100;
    let kernel = Kernel::real_at_speed(1, Inbox::new(), SPEED);
    let around = Instant::now();
    let before = kernel.now();
    let within = Instant::now();
    kernel.block_on(kernel.sleep(2.0)).unwrap();
    let within = within.elapsed();
    let passed = kernel.now().as_secs() - before.as_secs();
    let around = around.elapsed();
    assert!(passed >= 2.0);
    // Times are whole nanoseconds, before and after they are multiplied.
    let slack = 1e-6;
    assert!(passed + slack >= within.as_secs_f64() * f64::from(SPEED));
    assert!(passed - slack <= around.as_secs_f64() * f64::from(SPEED));
    kernel.shutdown();
}

/// An outside with one piece of news, and a bell that ends the wait for it.
struct Door {
    news: Cell<bool>,
    heard: Rc<Cell<bool>>,
    bell: Receiver<()>,
}

impl Outside for Door {
    fn look(&self) -> bool {
        let news = self.news.take();
        self.heard.set(self.heard.get() || news);
        news
    }

    fn wait(&self, timeout: Option<Duration>) {
        let patience = timeout.unwrap_or(Duration::from_secs(60));
        let _ = self.bell.recv_timeout(patience);
    }

    fn patience(&self) -> u32 {
        1
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "it is about threads and the machine's time"
)]
fn a_kernel_with_an_outside_waits_there_and_a_post_ends_the_wait() {
    let kernel = Kernel::real(1);
    let (ring, bell) = channel();
    let heard = Rc::new(Cell::new(false));
    let door = Door {
        news: Cell::new(true),
        heard: heard.clone(),
        bell,
    };
    kernel.set_outside(Rc::new(door), move || {
        let _ = ring.send(());
    });
    let (inbox, stop) = (kernel.inbox(), Arc::new(AtomicBool::new(false)));
    let flag = stop.clone();
    let poster = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        flag.store(true, Ordering::Release);
        inbox.post(|_| {});
    });
    let began = Instant::now();
    kernel.run_real(&stop);
    poster.join().unwrap();
    assert!(heard.get(), "it looks outside before it waits");
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "the post ended the wait"
    );
    kernel.shutdown();
}
