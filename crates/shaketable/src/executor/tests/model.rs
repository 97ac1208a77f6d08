//! The executor against a model of it, under random orders of events.
//!
//! The model is one line per task: is it open, was it asked to end, is it over. After
//! every drain the executor must agree with it, and at the end nothing may be left.

use super::*;
use std::collections::BTreeMap;

/// A small generator, so that a failure names a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }
}

/// What the test and the task's future share.
#[derive(Default)]
struct Shared {
    open: Cell<bool>,
    wakers: RefCell<Vec<Waker>>,
    polled_while_polled: Cell<bool>,
    polling: Cell<bool>,
}

/// Pending until it is opened. Keeps every waker it ever sees, and sometimes wakes itself.
struct Door {
    shared: Rc<Shared>,
    restless: bool,
}

impl Future for Door {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if self.shared.polling.replace(true) {
            self.shared.polled_while_polled.set(true);
        }
        let outcome = if self.shared.open.get() {
            Poll::Ready(())
        } else {
            let wakers = &self.shared.wakers;
            wakers.borrow_mut().push(context.waker().clone());
            if std::mem::replace(&mut self.restless, false) {
                context.waker().wake_by_ref();
                poll_pending_tasks();
            }
            Poll::Pending
        };
        self.shared.polling.set(false);
        outcome
    }
}

struct Entry {
    shared: Rc<Shared>,
    handle: Option<JoinHandle<()>>,
    over: Rc<Cell<bool>>,
    expect_over: bool,
}

/// Notes that the future which holds it is gone.
struct Over(Rc<Cell<bool>>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

fn play(seed: u64) {
    let mut random = Random(seed);
    let mut tasks: BTreeMap<u64, Entry> = BTreeMap::new();
    for step in 0..200 {
        match random.below(8) {
            0 | 1 => {
                let shared = Rc::new(Shared::default());
                let over = Rc::new(Cell::new(false));
                let (note, door) = (
                    Over(over.clone()),
                    Door {
                        shared: shared.clone(),
                        restless: random.below(2) == 0,
                    },
                );
                let future = async move {
                    let _note = note;
                    door.await;
                };
                let handle = match random.below(2) {
                    0 => Some(spawn(future)),
                    _ => {
                        fdb_spawn(future);
                        None
                    }
                };
                let expect_over = false;
                let entry = Entry {
                    shared,
                    handle,
                    over,
                    expect_over,
                };
                tasks.insert(step, entry);
            }
            action => {
                let count = tasks.len() as u64;
                if count == 0 {
                    continue;
                }
                let index = random.below(count) as usize;
                let (_, entry) = tasks.iter_mut().nth(index).expect("in range");
                let wakers = &entry.shared.wakers;
                match action {
                    2 | 3 => {
                        // Open it, and wake it by one of the wakers it left.
                        entry.shared.open.set(true);
                        let waker = wakers.borrow_mut().pop();
                        if let Some(waker) = waker {
                            waker.wake();
                            entry.expect_over = true;
                        }
                    }
                    4 => wakers.borrow().iter().for_each(Waker::wake_by_ref),
                    5 => {
                        // The task lives from these: without them it is over.
                        let wakers = wakers.take();
                        entry.expect_over |= !wakers.is_empty();
                        drop(wakers);
                    }
                    6 => {
                        if let Some(handle) = &entry.handle {
                            handle.abort();
                            entry.expect_over = true;
                        }
                    }
                    _ => drop(entry.handle.take()),
                }
            }
        }
        poll_pending_tasks();
        for (number, entry) in &tasks {
            assert!(
                !entry.shared.polled_while_polled.get(),
                "seed {seed}, step {step}: task {number} was polled while it was polled"
            );
            assert_eq!(
                entry.over.get(),
                entry.expect_over,
                "seed {seed}, step {step}: task {number}"
            );
            if let Some(handle) = &entry.handle {
                assert_eq!(handle.is_finished(), entry.expect_over, "seed {seed}");
            }
        }
    }
    for entry in tasks.into_values() {
        drop(entry.handle);
        drop(entry.shared.wakers.take());
    }
    assert_eq!(live_tasks(), 0, "seed {seed}");
}

#[test]
fn random_orders_of_events_end_as_the_model_says() {
    let _clean = NothingLeft;
    for seed in 0..100 {
        play(seed);
    }
}

#[test]
fn many_threads_wake_clone_and_drop_and_every_task_comes_to_its_end() {
    let _clean = NothingLeft;
    const TASKS: u32 = 20;
    let done = Rc::new(Cell::new(0));
    let mut senders = Vec::new();
    for _ in 0..TASKS {
        let (sender, receiver) = futures::channel::oneshot::channel::<u32>();
        senders.push(sender);
        let done = done.clone();
        fdb_spawn(async move {
            let shared = receiver.shared();
            let (a, b) = futures::join!(shared.clone(), shared);
            assert_eq!(a, b);
            done.set(done.get() + 1);
        });
    }
    let threads: Vec<_> = senders
        .into_iter()
        .enumerate()
        .map(|(number, sender)| {
            std::thread::Builder::new()
                .name(format!("stranger {number}"))
                .spawn(move || sender.send(number as u32))
                .expect("a thread")
        })
        .collect();
    for thread in threads {
        thread.join().expect("no panic").expect("a receiver");
        poll_pending_tasks();
    }
    assert_eq!(done.get(), TASKS);
}
