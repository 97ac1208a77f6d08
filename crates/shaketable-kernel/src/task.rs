//! Tasks: futures in a slab, each belonging to a process, each identified by an index and a
//! generation.
//!
//! A future is taken out of its slot while it is polled, so that nothing it does to the kernel in
//! the meantime (spawn, cancel, kill its own process) runs into a borrow. Cancelling drops the
//! future at once, or right after the poll if it is the one that runs. Destructors run with nothing
//! borrowed, because they may do all of that too.
//!
//! What a poll needs lies in one block with the future, so that a poll moves two words out of the
//! slot and back. The waker of a slot outlives its task: unless something still holds a clone of
//! it, it serves the next one, because most tasks end without anything ever having asked for it.

use crate::inbox::TaskWaker;
use crate::kernel::Kernel;
use crate::priority::Priority;
use crate::process::ProcessId;
use crate::ready::Local;
use crate::sync::Completion;
use crate::wakeup::Polling;
use pin_project_lite::pin_project;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A spawned task. As a future it returns the task's output; dropping it cancels the task.
///
/// A task whose process dies has no output: awaiting it never ends. [`Task::join`] returns `None`
/// in that case.
#[must_use = "dropping a task cancels it; call detach() to let it run"]
pub struct Task<T> {
    job: Job,
    /// The output, or `None` if there will be none.
    outcome: Rc<Completion<Option<T>>>,
    /// Whether it is known that there will be no output.
    lost: bool,
}

/// A task that nothing waits for, which therefore needs no place for its output. Dropping it
/// cancels the task.
#[must_use = "dropping a job cancels its task; call detach() to let it run"]
pub struct Job {
    kernel: Kernel,
    id: TaskId,
    detached: bool,
}

impl Job {
    /// Lets the task run to its end.
    pub fn detach(mut self) {
        self.detached = true;
    }

    /// Whether the task has ended, by itself or with its process.
    pub fn is_finished(&self) -> bool {
        !self.kernel.0.tasks.borrow().contains(self.id)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if !self.detached {
            self.kernel.cancel(self.id);
        }
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("id", &self.id)
            .field("finished", &self.is_finished())
            .finish()
    }
}

impl<T> Task<T> {
    /// Lets the task run to its end without being awaited.
    pub fn detach(self) {
        self.job.detach();
    }

    /// Whether the task has ended, by itself or with its process.
    pub fn is_finished(&self) -> bool {
        self.job.is_finished()
    }

    /// Waits for the end of the task. Returns its output, or `None` if its process died first.
    pub async fn join(self) -> Option<T> {
        std::future::poll_fn(|cx| self.outcome.poll(cx)).await
    }
}

impl<T> Unpin for Task<T> {}

impl<T> Future for Task<T> {
    type Output = T;
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        if self.lost {
            return Poll::Pending;
        }
        match self.outcome.poll(cx) {
            Poll::Ready(Some(output)) => Poll::Ready(output),
            Poll::Ready(None) => {
                self.lost = true;
                Poll::Pending
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<T> fmt::Debug for Task<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Task")
            .field("id", &self.job.id)
            .field("finished", &self.is_finished())
            .finish()
    }
}

/// Lives inside the task's future: however the future ends, the waiting task learns of it.
struct Report<T>(Option<Rc<Completion<Option<T>>>>);

impl<T> Report<T> {
    fn deliver(mut self, output: T) {
        if let Some(outcome) = self.0.take() {
            outcome.complete(Some(output));
        }
    }
}

impl<T> Drop for Report<T> {
    fn drop(&mut self) {
        if let Some(outcome) = &self.0 {
            outcome.complete(None);
        }
    }
}

pin_project! {
    /// What a task's slot holds. Not an `async` block, which would reserve space for the future
    /// twice.
    struct Run<F: Future> {
        #[pin]
        future: F,
        report: Option<Report<F::Output>>,
    }
}

impl<F: Future> Future for Run<F> {
    type Output = ();
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        this.future.poll(context).map(|output| {
            if let Some(report) = this.report.take() {
                report.deliver(output);
            }
        })
    }
}

/// Identifies one task, and never a later one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskId {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}

/// All tasks of one kernel.
pub(crate) struct Tasks {
    slots: Vec<Slot>,
    /// The process of the task in each slot. Apart from the slots, because a process that dies
    /// looks for its tasks among all others.
    owners: Vec<Option<ProcessId>>,
    free: Vec<u32>,
}

struct Slot {
    generation: u32,
    state: State,
    /// The waker of the task that is or was here.
    waker: Option<Arc<TaskWaker>>,
}

impl Slot {
    /// The task waits to be polled.
    #[inline]
    fn become_idle(&mut self, body: Pin<Box<Body>>) {
        let before = std::mem::replace(&mut self.state, State::Idle(body));
        // Asked instead of dropped, which is what an assignment would do.
        assert!(
            !matches!(before, State::Idle(_)),
            "a slot holds one task at a time"
        );
        std::mem::forget(before);
    }
}

enum State {
    Free,
    Idle(Pin<Box<Body>>),
    Running {
        cancelled: bool,
    },
    /// Polled by [`Kernel::block_on`] on its own stack.
    Outside,
}

pin_project! {
    /// A task and what is needed to poll it.
    pub(crate) struct Body<F: ?Sized = dyn Future<Output = ()>> {
        waker: Waker,
        local: Local,
        #[pin]
        future: F,
    }
}

impl Tasks {
    pub(crate) fn new() -> Tasks {
        Tasks {
            slots: Vec::new(),
            owners: Vec::new(),
            free: Vec::new(),
        }
    }

    fn contains(&self, id: TaskId) -> bool {
        self.slots[id.index as usize].generation == id.generation
    }

    fn allocate(&mut self, process: Option<ProcessId>) -> TaskId {
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                self.slots.push(Slot {
                    generation: 0,
                    state: State::Free,
                    waker: None,
                });
                self.owners.push(None);
                u32::try_from(self.slots.len() - 1).expect("fewer than 2^32 tasks")
            }
        };
        let slot = &mut self.slots[index as usize];
        assert!(
            matches!(slot.state, State::Free),
            "a slot holds one task at a time"
        );
        // Nothing of what was there before has to be dropped.
        std::mem::forget(std::mem::replace(&mut slot.state, State::Outside));
        self.owners[index as usize] = process;
        TaskId {
            index,
            generation: slot.generation,
        }
    }

    fn release(&mut self, index: u32) -> State {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        self.owners[index as usize] = None;
        self.free.push(index);
        std::mem::replace(&mut slot.state, State::Free)
    }

    fn cancel(&mut self, id: TaskId) -> Option<Pin<Box<Body>>> {
        let slot = &mut self.slots[id.index as usize];
        if slot.generation != id.generation {
            return None;
        }
        if let State::Running { cancelled } = &mut slot.state {
            *cancelled = true;
            return None;
        }
        match self.release(id.index) {
            State::Idle(body) => Some(body),
            _ => None,
        }
    }

    /// Cancels every task of a process, or every task; the bodies are returned for the caller to
    /// drop.
    pub(crate) fn cancel_all(&mut self, process: Option<ProcessId>) -> Vec<Pin<Box<Body>>> {
        let doomed: Vec<usize> = match process {
            Some(_) => {
                let owners = self.owners.iter().enumerate();
                let its = owners.filter(|(_, owner)| **owner == process);
                its.map(|(index, _)| index).collect()
            }
            None => {
                let lives = |slot: &Slot| !matches!(slot.state, State::Free | State::Outside);
                let slots = self.slots.iter().enumerate();
                let live = slots.filter(|(_, slot)| lives(slot));
                live.map(|(index, _)| index).collect()
            }
        };
        let cancel = |index: usize| {
            let generation = self.slots[index].generation;
            self.cancel(TaskId {
                index: index as u32,
                generation,
            })
        };
        doomed.into_iter().filter_map(cancel).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

impl Kernel {
    /// Starts a task of `process`. It runs when the loop reaches it, never inside this call. A dead
    /// process runs nothing: the future is then dropped.
    pub fn spawn<T: 'static>(
        &self,
        process: ProcessId,
        priority: Priority,
        future: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        let outcome = Rc::new(Completion::new());
        let report = Report(Some(outcome.clone()));
        let run = Run {
            future,
            report: Some(report),
        };
        Task {
            job: self.start(process, priority, run),
            outcome,
            lost: false,
        }
    }

    /// The same for a task that nothing waits for.
    pub fn start(
        &self,
        process: ProcessId,
        priority: Priority,
        future: impl Future<Output = ()> + 'static,
    ) -> Job {
        let (job, admitted) = self.begin_job(process, priority);
        if let Some((local, waker)) = admitted {
            let body = Box::pin(Body {
                waker,
                local,
                future,
            });
            self.begin(job.id, local, body);
        }
        job
    }

    /// The part of starting a task that comes before its future, which is the same for all; without
    /// room for one if the process is dead.
    fn begin_job(&self, process: ProcessId, priority: Priority) -> (Job, Option<(Local, Waker)>) {
        let id = self.0.tasks.borrow_mut().allocate(Some(process));
        let job = Job {
            kernel: self.clone(),
            id,
            detached: false,
        };
        if self.is_alive(process) {
            (job, Some(self.admit(id, priority)))
        } else {
            self.0.tasks.borrow_mut().release(id.index);
            (job, None)
        }
    }

    /// Makes room for a task among what is ready, and a waker for it.
    fn admit(&self, id: TaskId, priority: Priority) -> (Local, Waker) {
        let mut tasks = self.0.tasks.borrow_mut();
        let place = &mut tasks.slots[id.index as usize].waker;
        self.0.ready.admit(id, priority, place)
    }

    fn begin(&self, id: TaskId, local: Local, body: Pin<Box<Body>>) {
        self.0.ready.wake(local);
        let slot = &mut self.0.tasks.borrow_mut().slots[id.index as usize];
        slot.become_idle(body);
    }

    /// The process whose task is running, if one is.
    pub fn current_process(&self) -> Option<ProcessId> {
        self.0.current_process.get()
    }

    /// Runs a closure on behalf of a process, between tasks.
    pub(crate) fn run_as(&self, process: ProcessId, work: impl FnOnce()) {
        self.0.current_process.set(Some(process));
        self.0.last_process.set(Some(process));
        work();
        self.0.current_process.set(None);
    }

    fn cancel(&self, id: TaskId) {
        let body = self.0.tasks.borrow_mut().cancel(id);
        drop(body);
    }

    /// Polls one task, unless it has ended or [`Kernel::block_on`] polls it.
    pub(crate) fn poll_task(&self, id: TaskId) {
        let mut body = {
            let mut tasks = self.0.tasks.borrow_mut();
            let slot = &mut tasks.slots[id.index as usize];
            if slot.generation != id.generation || matches!(slot.state, State::Outside) {
                return;
            }
            let running = State::Running { cancelled: false };
            let State::Idle(body) = std::mem::replace(&mut slot.state, running) else {
                panic!("block_on was called inside a task, which would have to run to go on");
            };
            let owner = tasks.owners[id.index as usize];
            self.0.current_process.set(owner);
            self.0.last_process.set(owner);
            body
        };
        let guard = Running { kernel: self, id };
        let task = body.as_mut().project();
        let polling = Polling::begin(*task.local, task.waker);
        let mut context = Context::from_waker(task.waker);
        let ended = task.future.poll(&mut context).is_ready();
        drop(polling);
        let mut tasks = self.0.tasks.borrow_mut();
        let slot = &mut tasks.slots[id.index as usize];
        if ended || !matches!(slot.state, State::Running { cancelled: false }) {
            drop(tasks);
            drop(guard);
            drop(body);
        } else {
            slot.become_idle(body);
            drop(tasks);
            std::mem::forget(guard);
            self.0.current_process.set(None);
        }
    }

    /// A task slot whose future lives on the caller's stack.
    pub(crate) fn outside_task(&self) -> Outside<'_> {
        let id = self.0.tasks.borrow_mut().allocate(None);
        let (_, waker) = self.admit(id, Priority::DefaultDelay);
        Outside {
            kernel: self,
            id,
            waker,
        }
    }
}

/// Frees the slot of the running task when it ends, by returning or by a panic that passes through.
struct Running<'a> {
    kernel: &'a Kernel,
    id: TaskId,
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.kernel.0.current_process.set(None);
        self.kernel.0.tasks.borrow_mut().release(self.id.index);
    }
}

/// See [`Kernel::outside_task`].
pub(crate) struct Outside<'a> {
    kernel: &'a Kernel,
    pub(crate) id: TaskId,
    pub(crate) waker: Waker,
}

impl Drop for Outside<'_> {
    fn drop(&mut self) {
        self.kernel.0.tasks.borrow_mut().release(self.id.index);
    }
}
