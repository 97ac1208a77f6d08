//! The loop of a network thread, on the machine's clock.

use shaketable_kernel::{Inbox, Kernel, Priority, ProcessSpec};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};

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
