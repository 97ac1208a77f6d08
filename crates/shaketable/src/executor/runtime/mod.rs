//! Tokio in simulated time: the feature `tokio`.
//!
//! Each phase has a tokio runtime of its own, a current-thread one, as real as in production. What
//! differs is who lets it run. In production `block_on` is called once and the thread sleeps in
//! `epoll_wait` until something happens. Here `block_on` is called again and again, for one *turn*
//! each: the turn polls every task that is ready, tokio's and ours, and ends at the moment when
//! tokio would put the thread to sleep. [`symbols`] answers that `epoll_wait`: it notes how long
//! tokio wants to sleep, and the turn is over. The host gets its thread back, and a delay of that
//! length brings on the next turn; so does a callback that wakes a task.
//!
//! What follows from it:
//!
//! * Nothing of tokio is left on the stack, or in thread-local variables, while the host runs.
//! * All code of a phase runs inside `block_on`, so tokio itself refuses what would block there.
//! * A runtime belongs to one phase of one client. What its tasks do is reported by that client,
//!   and when the phase ends the runtime is dropped, and its tasks with it.
//! * The end of a phase cannot come inside a turn, because a runtime cannot be dropped by a task
//!   that it is polling: [`after_turn`] puts it off.

#[cfg(all(feature = "embedded", not(tokio_unstable)))]
pub(crate) mod chance;
mod symbols;
mod turn;

pub(crate) use turn::after_turn;
pub(super) use turn::{is_ending, is_in_turn};

use super::Failure;
use super::awaits::Awaits;
use super::queue::Queue;
use super::scope::Scope;
use crate::context::{Delay, WorkloadContext};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::os::fd::RawFd;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;
use symbols::Descriptors;
use tokio::runtime::{Builder, LocalOptions, LocalRuntime, RuntimeMetrics};
use turn::{Ended, Turn};

/// The tokio runtime of a phase.
pub(crate) struct Runtime {
    /// `None` when the phase is over.
    tokio: RefCell<Option<LocalRuntime>>,
    metrics: RuntimeMetrics,
    descriptors: Descriptors,
    /// Tokio was woken from outside a turn, by a task that became ready or by a new timer.
    is_woken: Cell<bool>,
    context: WorkloadContext,
    alarm: RefCell<Option<Alarm>>,
    /// The last turn ended before tokio had nothing more to do.
    is_cut_short: Cell<bool>,
}

/// A delay of the host, which brings on the next turn.
struct Alarm {
    /// In seconds of simulated time.
    at: f64,
    /// Its own, because a delay that is given up rings too.
    bell: Arc<Bell>,
    _delay: Pin<Box<Delay>>,
}

/// Rung by an alarm.
#[derive(Default)]
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

thread_local! {
    /// The phases that have a runtime, in the order in which they began.
    static PHASES: RefCell<Vec<Rc<Scope>>> = const { RefCell::new(Vec::new()) };
    /// How many they are. A plain word without a destructor: it is read by `write`.
    static COUNT: Cell<usize> = const { Cell::new(0) };
}

/// Gives a phase its runtime.
pub(crate) fn begin(scope: &Rc<Scope>, context: &WorkloadContext) -> Result<(), String> {
    scope.set_runtime(Runtime::new(context)?);
    PHASES.with_borrow_mut(|phases| {
        phases.push(scope.clone());
        COUNT.set(phases.len());
    });
    Ok(())
}

/// Drops the runtime of a phase with all its tasks; returns how many were left.
pub(crate) fn end(scope: &Scope) -> usize {
    PHASES.with_borrow_mut(|phases| {
        phases.retain(|phase| !std::ptr::eq(&**phase, scope));
        COUNT.set(phases.len());
    });
    let Some(runtime) = scope.runtime() else {
        return 0;
    };
    // The scope keeps what is left of the runtime, which is nothing that runs.
    runtime.alarm.take();
    let Some(tokio) = runtime.tokio.take() else {
        return 0;
    };
    let tasks = runtime.metrics.num_alive_tasks();
    let outer = super::queue::enter_scope(scope);
    // Tokio catches what a task's destructor panics with.
    tokio.shutdown_background();
    super::queue::leave_scope(outer);
    tasks
}

/// Polls everything that is ready: our tasks in the order in which they were woken, each inside its
/// phase's runtime, and the tasks of the runtimes.
pub(super) fn run(queue: &Queue) {
    let rounds = Cell::new(0);
    loop {
        queue.receive();
        let scope = match queue.front() {
            Some(Some(scope)) if scope.runtime().is_some_and(Runtime::is_alive) => scope,
            Some(_) => {
                queue.run_first();
                continue;
            }
            None => match next_due() {
                Some(scope) => scope,
                None => break,
            },
        };
        if let Some(runtime) = scope.runtime() {
            runtime.take_turn(&scope, queue, &rounds);
        }
        turn::settle();
    }
}

/// Notes that tokio wakes one of this thread's runtimes, if that is what this descriptor is for.
fn note_alarm(descriptor: RawFd) -> bool {
    if COUNT.get() == 0 {
        return false;
    }
    let note = |phases: &RefCell<Vec<Rc<Scope>>>| {
        let phases = phases.try_borrow().ok()?;
        let mut runtimes = phases.iter().filter_map(|scope| scope.runtime());
        let woken = runtimes.find(|runtime| runtime.descriptors.alarm == descriptor)?;
        woken.is_woken.set(true);
        Some(())
    };
    PHASES.try_with(note).ok().flatten().is_some()
}

/// The first phase whose runtime has something to do.
fn next_due() -> Option<Rc<Scope>> {
    PHASES.with_borrow(|phases| {
        let is_due = |scope: &&Rc<Scope>| scope.runtime().is_some_and(Runtime::is_due);
        phases.iter().find(is_due).cloned()
    })
}

impl Runtime {
    fn new(context: &WorkloadContext) -> Result<Runtime, String> {
        symbols::check()?;
        #[cfg(all(feature = "embedded", not(tokio_unstable)))]
        let mut builder = chance::seeded(Builder::new_current_thread);
        #[cfg(not(all(feature = "embedded", not(tokio_unstable))))]
        let mut builder = Builder::new_current_thread();
        builder.enable_io().enable_time();
        // Called for a thread that is about to be started, on the thread that asks for it.
        builder.thread_name_fn(refuse_thread);
        #[cfg(tokio_unstable)]
        builder.rng_seed(symbols::seed(context));
        let (tokio, descriptors) =
            symbols::with_descriptors(|| builder.build_local(LocalOptions::default()));
        let tokio = tokio.map_err(|error| format!("tokio's runtime cannot be made: {error}"))?;
        Ok(Runtime {
            metrics: tokio.handle().metrics(),
            descriptors: descriptors.ok_or("tokio's runtime does not wait in epoll_wait")?,
            is_woken: Cell::new(false),
            tokio: RefCell::new(Some(tokio)),
            context: context.clone(),
            alarm: RefCell::new(None),
            is_cut_short: Cell::new(false),
        })
    }

    /// Whether the phase is not over yet.
    fn is_alive(&self) -> bool {
        self.tokio.borrow().is_some()
    }

    /// Whether a task was woken from outside a turn, or has a new timer, or time is up.
    fn is_due(&self) -> bool {
        self.is_cut_short.get()
            || self.is_woken.get()
            || self.has_rung()
            || self.metrics.global_queue_depth() > 0
    }

    fn has_rung(&self) -> bool {
        matches!(&*self.alarm.borrow(), Some(alarm) if alarm.bell.0.load(Ordering::Relaxed))
    }

    fn take_turn(&self, scope: &Rc<Scope>, queue: &Queue, rounds: &Cell<u32>) {
        let tokio = self.tokio.borrow();
        let Some(running) = &*tokio else {
            return;
        };
        if self.has_rung() {
            self.alarm.take();
        }
        let awaits = scope.awaits();
        if awaits.is_some_and(Awaits::end_turn) {
            scope.die(queue);
        }
        let awaits_before = awaits.map(Awaits::count);
        let turn = Turn::new(self.descriptors.epoll, queue.poll_budget(), rounds);
        let outer = queue.enter_scope(Rc::as_ptr(scope));
        let ended = turn.run(running, || queue.run_of(scope));
        queue.leave_scope(outer);
        // What was woken during the turn has run.
        self.is_woken.set(false);
        // From here on the phase can end.
        drop(tokio);
        // Mostly it was this phase that came to its end, and then there is no next turn.
        self.is_cut_short.set(matches!(ended, Ended::Phase));
        if let (Ended::Idle(_), Some(awaits)) = (&ended, awaits)
            && awaits_before == Some(awaits.count())
            && awaits.begin_turn()
        {
            scope.die(queue);
        }
        match ended {
            Ended::Idle(Some(sleep)) => self.arm(scope, sleep),
            Ended::Idle(None) | Ended::Phase => {}
            Ended::Spinning => {
                let rounds = rounds.replace(0);
                scope.report(&Failure::TokioSpinning(rounds), false);
            }
        }
    }

    /// Makes the host come back when tokio wants to run again. An alarm that comes earlier stays:
    /// the turn that it brings on sets the next one.
    fn arm(&self, scope: &Scope, sleep: Duration) {
        let at = self.context.now() + sleep.as_secs_f64();
        if matches!(&*self.alarm.borrow(), Some(alarm) if alarm.at <= at) {
            return;
        }
        let mut delay = Box::pin(self.context.start_delay(sleep));
        let bell = Arc::<Bell>::default();
        let waker = Waker::from(bell.clone());
        match delay.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(Err(error)) => {
                return scope.report(&Failure::NoDelay(error.code()), false);
            }
            Poll::Ready(Ok(())) => waker.wake(),
            Poll::Pending => {}
        }
        let alarm = Alarm {
            at,
            bell,
            _delay: delay,
        };
        drop(self.alarm.replace(Some(alarm)));
    }
}

/// Whether a panic comes from [`refuse_thread`].
pub(super) fn is_own_place(place: Option<&str>) -> bool {
    place.is_some_and(|place| place.starts_with(file!()))
}

/// What is not simulated, and what to do instead; `stack` shows how the code asked for it.
pub(super) fn what_is_not_simulated(stack: &str) -> (&'static str, &'static str) {
    if stack.contains("tokio::runtime::builder::") {
        (
            "a runtime of its own is not simulated",
            "each phase has a tokio runtime, so await the future there, or spawn it",
        )
    } else if stack.contains("tokio::process::") {
        (
            "other programs are not simulated",
            "put the program behind a trait, and give the test an implementation of its own",
        )
    } else if stack.contains("tokio::signal::") {
        (
            "signals are not simulated",
            "hand the code a future that is ready when it is to stop, such as the receiver of a \
             channel, and let the test decide when",
        )
    } else {
        (
            "sockets and pipes are not simulated",
            "connect the two sides with tokio::io::duplex, or put the other side behind a trait",
        )
    }
}

/// What tokio calls a thread of its pool; in a simulation there must be none.
fn refuse_thread() -> String {
    panic!(
        "spawn_blocking, tokio::fs and look-ups of host names start a thread, and a simulation has \
         one: call the function itself, or put it behind a trait"
    );
}
