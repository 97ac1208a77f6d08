//! How other threads reach a task's own thread.
//!
//! A simulation has one thread; a wake-up from another one means that the code under test started a
//! thread, and with it lost its determinism. That is reported, but nothing may break on the way:
//! what a foreign thread holds is put here, behind a lock, and the home thread picks it up at its
//! next drain. Nothing else ever takes this lock, so the usual path pays one load of a flag.

use super::Failure;
use super::queue::{self, Queue};
use super::task::TaskRef;
use crate::stderr::complain;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// One thread that runs tasks.
#[derive(Default)]
pub(super) struct Home {
    has_mail: AtomicBool,
    mail: Mutex<Mail>,
}

#[derive(Default)]
struct Mail {
    closed: bool,
    letters: Vec<Letter>,
}

enum Letter {
    Wake { task: TaskRef, sender: String },
    Release(TaskRef),
}

// SAFETY: a letter only carries a task through the lock; the home thread alone opens it.
unsafe impl Send for Letter {}

impl Home {
    /// A wake-up that happened on another thread.
    #[cold]
    pub(super) fn send_wake(&self, task: TaskRef) {
        let sender = thread_name();
        // At once, because the home thread may never run again if nothing else wakes it.
        complain!("{}", complaint(&sender));
        self.send(Letter::Wake { task, sender });
    }

    /// The last reference, given up on another thread.
    #[cold]
    pub(super) fn send_release(&self, task: TaskRef) {
        self.send(Letter::Release(task));
    }

    /// Home thread: opens the letters, if there are any.
    pub(super) fn receive(&self, queue: &Queue) {
        if self.has_mail.load(Ordering::Acquire) {
            self.open_letters(queue);
        }
    }

    /// Home thread, at its end: nothing can be delivered any more.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        queue::with(|queue| self.open_letters(queue));
    }

    #[cold]
    fn open_letters(&self, queue: &Queue) {
        let letters = {
            let mut mail = self.lock();
            self.has_mail.store(false, Ordering::Relaxed);
            std::mem::take(&mut mail.letters)
        };
        for letter in letters {
            match letter {
                Letter::Wake { task, sender } => {
                    task.report(&Failure::ForeignWake(complaint(&sender)));
                    task.deliver(queue);
                }
                Letter::Release(task) => task.release(queue),
            }
        }
    }

    fn send(&self, letter: Letter) {
        let mut mail = self.lock();
        if mail.closed {
            // The future must not be dropped on this thread, and its own thread is gone.
            std::mem::forget(letter);
            complain!("a task outlived its thread, and is leaked");
            return;
        }
        mail.letters.push(letter);
        self.has_mail.store(true, Ordering::Release);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Mail> {
        // Nothing panics while the lock is held, so a poisoned lock guards sound data.
        self.mail
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

fn complaint(sender: &str) -> String {
    format!(
        "a task was woken from thread `{sender}`, which is not its own; a simulation has one thread, \
         and what other threads do is not reproducible. Run that work on the workload's own executor \
         (shaketable::spawn), or keep it out of the simulation"
    )
}

fn thread_name() -> String {
    let thread = std::thread::current();
    match thread.name() {
        Some(name) => name.to_owned(),
        None => format!("{:?}", thread.id()),
    }
}
