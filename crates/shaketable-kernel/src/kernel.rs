//! The kernel itself: its clock and its loop.
//!
//! The loop is FoundationDB's: run what is ready, highest priority first, until nothing is; then
//! let time pass to the earliest timer, fire everything due at that moment, and begin again. In a
//! simulation the clock jumps; with the real clock the loop waits, and a post from another thread
//! ends the wait.
//!
//! A handle is an `Rc`. Tasks hold handles and the kernel holds tasks, so a kernel is freed only
//! after [`Kernel::shutdown`].

use crate::decision::{Decisions, Happening};
use crate::inbox::Inbox;
use crate::network::{LinkId, Network, NetworkConfig};
use crate::outside::Outside;
use crate::process::{Process, ProcessId};
use crate::random::{Digest, Stream, Streams};
use crate::ready::{Next, Other, Ready};
use crate::record::{FaultCounts, Recorder};
use crate::task::Tasks;
use crate::time::Time;
use crate::timer::{Fired, Held, Taken, TimerId, Timers};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::{Rc, Weak};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

/// One universe: its clock, its tasks, its random streams, its network. A cheap handle for one
/// thread.
#[derive(Clone)]
pub struct Kernel(pub(crate) Rc<Inner>);

pub(crate) struct Inner {
    pub(crate) ready: Ready,
    clock: Clock,
    pub(crate) timers: RefCell<Timers>,
    pub(crate) tasks: RefCell<Tasks>,
    streams: RefCell<Streams>,
    pub(crate) processes: RefCell<Vec<Process>>,
    pub(crate) network: RefCell<Network>,
    pub(crate) recorder: RefCell<Option<Rc<dyn Recorder>>>,
    pub(crate) recording: Cell<bool>,
    pub(crate) fault_counts: Cell<FaultCounts>,
    pub(crate) decisions: RefCell<Decisions>,
    /// Whether decisions are listed or overridden.
    pub(crate) deciding: Cell<bool>,
    pub(crate) events_happen: Cell<Happening>,
    /// Whether it matters what operations are called.
    pub(crate) naming_operations: Cell<bool>,
    pub(crate) current_process: Cell<Option<ProcessId>>,
    events: Cell<u64>,
    /// How many there were when time last moved.
    events_before: Cell<u64>,
    /// How many more there may be before it must move again. A real clock moves by itself, so there
    /// this is never reached.
    budget: Cell<u64>,
    pub(crate) last_process: Cell<Option<ProcessId>>,
    pub(crate) outside: RefCell<Option<Rc<dyn Outside>>>,
    seed: u64,
}

enum Clock {
    Virtual(Cell<Time>),
    /// The machine's time since that moment, multiplied.
    Real(Instant, u32),
}

/// Nothing is ready and no timer is set: nothing can ever happen again.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Deadlock {
    /// Nothing is ready and no timer is set.
    #[error("deadlock at {time} s: {tasks} tasks wait, but none is ready and no timer is set")]
    NothingToDo {
        /// When.
        time: Time,
        /// How many tasks exist.
        tasks: usize,
    },
    /// Something is always ready, but time never moves.
    #[error(transparent)]
    Spinning(#[from] Spinning),
}

/// Tasks keep waking one another while time stands still.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{events} events at {time} s without time moving: a task keeps waking itself (last process: {process:?})"
)]
pub struct Spinning {
    /// When.
    pub time: Time,
    /// How many events there were at that moment.
    pub events: u64,
    /// The process whose task ran last.
    pub process: Option<ProcessId>,
}

/// How many items a network thread runs before it looks at its timers again.
const TIMERS_EVERY: u32 = 64;
/// How many events may happen in a simulation before time must move.
const BUDGET: u64 = 5_000_000;

impl Kernel {
    /// Creates a simulation: the clock begins at zero and jumps to the next timer.
    pub fn simulation(seed: u64) -> Kernel {
        let clock = Clock::Virtual(Cell::new(Time::ZERO));
        Kernel::new(seed, clock, Inbox::new(), NetworkConfig::simulation())
    }

    /// Creates a kernel that runs on the machine's clock, with a network that costs nothing.
    pub fn real(seed: u64) -> Kernel {
        Kernel::real_with(seed, Inbox::new())
    }

    /// Like [`Kernel::real`], for an inbox that already exists. The calling thread becomes the
    /// kernel's.
    pub fn real_with(seed: u64, inbox: Inbox) -> Kernel {
        Kernel::real_at_speed(seed, inbox, 1)
    }

    /// Like [`Kernel::real_with`], with a clock that runs `speed` times as fast as the machine's.
    ///
    /// # Panics
    /// If the clock would stand still.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the one clock that is the machine's"
    )]
    pub fn real_at_speed(seed: u64, inbox: Inbox, speed: u32) -> Kernel {
        assert!(speed > 0, "a clock does not stand still");
        let clock = Clock::Real(Instant::now(), speed);
        Kernel::new(seed, clock, inbox, NetworkConfig::instant())
    }

    fn new(seed: u64, clock: Clock, inbox: Inbox, network: NetworkConfig) -> Kernel {
        let mut streams = Streams::new(seed);
        let network = Network::new(network, &mut streams);
        let budget = match clock {
            Clock::Virtual(_) => BUDGET,
            Clock::Real(..) => u64::MAX,
        };
        Kernel(Rc::new(Inner {
            ready: Ready::new(inbox),
            clock,
            timers: RefCell::new(Timers::new()),
            tasks: RefCell::new(Tasks::new()),
            streams: RefCell::new(streams),
            processes: RefCell::default(),
            network: RefCell::new(network),
            recorder: RefCell::default(),
            recording: Cell::new(false),
            fault_counts: Cell::default(),
            decisions: RefCell::default(),
            deciding: Cell::new(false),
            events_happen: Cell::new(Happening::AsDrawn),
            naming_operations: Cell::new(false),
            current_process: Cell::new(None),
            events: Cell::new(0),
            events_before: Cell::new(0),
            budget: Cell::new(budget),
            last_process: Cell::new(None),
            outside: RefCell::default(),
            seed,
        }))
    }

    /// The seed from which everything is split.
    pub fn seed(&self) -> u64 {
        self.0.seed
    }

    /// The current time.
    #[inline]
    pub fn now(&self) -> Time {
        match &self.0.clock {
            Clock::Virtual(now) => now.get(),
            Clock::Real(start, speed) => {
                Time::from_nanos(start.elapsed().as_nanos() as u64 * u64::from(*speed))
            }
        }
    }

    /// Whether time is simulated.
    pub fn is_simulation(&self) -> bool {
        matches!(self.0.clock, Clock::Virtual(_))
    }

    /// Returns the random stream of that name: the same one for every caller.
    pub fn stream(&self, name: &str) -> Stream {
        self.0.streams.borrow_mut().get(name)
    }

    /// Gives the streams whose names begin so another seed, those that exist and those to come.
    pub fn reseed_streams(&self, prefix: &str, seed: u64) {
        self.0.streams.borrow_mut().reseed(prefix, seed);
    }

    /// The streams that have been drawn from, in the order of their names, and how often.
    pub fn streams_drawn_from(&self) -> Vec<(String, u64)> {
        self.0.streams.borrow().drawn_from()
    }

    /// The way in for other threads, and for calls that must not take effect at once.
    pub fn inbox(&self) -> Inbox {
        Inbox(self.0.ready.shared.clone())
    }

    /// Runs `call` on the kernel's own stack at that moment, between tasks.
    pub fn call_at(&self, time: Time, call: impl FnOnce(&Kernel) + 'static) {
        if time != Time::NEVER {
            let call = Box::new(call);
            self.0.timers.borrow_mut().set_call(time, call);
        }
    }

    /// Runs everything that is ready, until nothing is. A simulation gives up when that takes
    /// suspiciously many steps without time moving; see [`Kernel::set_budget`].
    pub fn run_ready(&self) -> Result<(), Spinning> {
        loop {
            self.check_budget()?;
            match self.0.ready.pop() {
                Some(item) => self.run_item(item),
                None => return Ok(()),
            }
        }
    }

    /// Whether nothing is ready to run.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.0.ready.is_empty()
    }

    /// The time of the earliest timer.
    pub fn next_timer(&self) -> Option<Time> {
        self.0.timers.borrow_mut().next()
    }

    /// Lets time pass to the earliest timer and fires everything due then. Returns whether there
    /// was one.
    ///
    /// With the real clock it waits for that moment or until something is ready, without a limit,
    /// and always returns `true`: another thread may post at any time.
    pub fn advance(&self) -> bool {
        match &self.0.clock {
            Clock::Virtual(now) => self.advance_until(now, Time::NEVER),
            Clock::Real(_, speed) => {
                let wait = self.next_timer().map(|time| {
                    let nanos = time.as_nanos().saturating_sub(self.now().as_nanos());
                    // Rounded up: nothing is due before its time.
                    Duration::from_nanos(nanos.div_ceil(u64::from(*speed)))
                });
                let outside = self.outside();
                match outside {
                    Some(outside) if wait == Some(Duration::ZERO) => {
                        outside.look();
                    }
                    Some(outside) => self.0.ready.wait_outside(&*outside, wait),
                    None if wait == Some(Duration::ZERO) => {}
                    None => self.0.ready.wait(wait),
                }
                self.fire_until(self.now());
                true
            }
        }
    }

    /// Lets simulated time pass, from one timer to the next, until something is ready to run.
    ///
    /// A message that arrives at a server mostly wakes no task, so that nothing has changed for the
    /// caller. It may still want to act at some moment, or now and then: this returns after the
    /// first moment that is not before `until`, and after `moments` of them. Each is passed to
    /// `moved`. Returns `false` as soon as no timer is left.
    ///
    /// # Panics
    /// If the clock is the real one, which passes by itself.
    pub fn advance_until_ready(
        &self,
        until: Time,
        moments: u32,
        mut moved: impl FnMut(Time),
    ) -> bool {
        let Clock::Virtual(now) = &self.0.clock else {
            panic!("the real clock runs by itself");
        };
        for _ in 0..moments {
            let Some(idle) = self.advance_once(now) else {
                return false;
            };
            let now = now.get();
            moved(now);
            if now >= until || !idle {
                break;
            }
        }
        true
    }

    /// Lets time pass to the next timer, if there is one. Returns whether it may go on from there:
    /// if timers have used up the budget, that is reported before the next task runs.
    fn advance_once(&self, now: &Cell<Time>) -> Option<bool> {
        let moved = self.advance_until(now, Time::NEVER);
        moved.then(|| self.is_idle() && self.has_budget())
    }

    /// Runs a simulation until nothing is left to do or the next timer lies beyond `limit`.
    ///
    /// # Panics
    /// If the clock is the real one, which no limit can stop.
    pub fn run_until(&self, limit: Time) -> Result<(), Spinning> {
        let Clock::Virtual(now) = &self.0.clock else {
            panic!("the real clock runs by itself");
        };
        loop {
            self.run_ready()?;
            if !self.advance_until(now, limit) {
                break;
            }
        }
        if limit != Time::NEVER {
            self.move_clock(now, limit);
        }
        Ok(())
    }

    /// The loop of a network thread: runs until `stop` is set. After setting it, post something to
    /// the inbox, to end the wait.
    pub fn run_real(&self, stop: &AtomicBool) {
        let mut in_a_row = 0;
        while !stop.load(Ordering::Acquire) {
            match self.0.ready.pop() {
                Some(item) => {
                    // A real clock has no budget: time moves by itself.
                    self.run_item(item);
                    // Threads that never stop posting must not delay the timers.
                    in_a_row += 1;
                    if in_a_row == TIMERS_EVERY {
                        in_a_row = 0;
                        self.fire_until(self.now());
                        if let Some(outside) = self.outside() {
                            outside.look();
                        }
                    }
                }
                None => {
                    in_a_row = 0;
                    self.advance();
                }
            }
        }
    }

    /// Runs the kernel until the future is ready. The future belongs to no process. With the real
    /// clock there is no deadlock to report: it waits.
    ///
    /// # Panics
    /// If it is called inside a task and that task is woken.
    pub fn block_on<F: Future>(&self, future: F) -> Result<F::Output, Deadlock> {
        let mut future = pin!(future);
        let outside = self.outside_task();
        let mut cx = Context::from_waker(&outside.waker);
        let mut woken = true;
        loop {
            if woken {
                woken = false;
                if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
                    return Ok(output);
                }
                self.count_event();
                self.check_budget()?;
            }
            match self.0.ready.pop() {
                Some(Next::Task(id)) if id == outside.id => woken = true,
                Some(item) => {
                    self.run_item(item);
                    self.check_budget()?;
                }
                None => {
                    self.check_budget()?;
                    if !self.advance() {
                        let tasks = self.0.tasks.borrow().len() - 1;
                        return Err(Deadlock::NothingToDo {
                            time: self.now(),
                            tasks,
                        });
                    }
                }
            }
        }
    }

    /// Sets how many events may happen in a simulation before time must move.
    pub fn set_budget(&self, events: u64) {
        if self.is_simulation() {
            self.0.budget.set(events);
        }
    }

    /// How many events there were: polls, closures run, timers fired.
    pub fn events(&self) -> u64 {
        self.0.events.get()
    }

    /// How many tasks exist.
    pub fn task_count(&self) -> usize {
        self.0.tasks.borrow().len()
    }

    /// A number that differs, almost certainly, between two runs in which anything differed: it
    /// covers the state of every random stream, the time, and the count of events.
    pub fn fingerprint(&self) -> u64 {
        let mut digest = Digest::new();
        digest.write_u64(self.events());
        digest.write_u64(if self.is_simulation() {
            self.now().as_nanos()
        } else {
            0
        });
        self.0.streams.borrow().fingerprint(&mut digest);
        digest.finish()
    }

    /// Ends the universe: drops all tasks, timers and messages, and closes the inbox. Without this,
    /// tasks that hold a handle to their own kernel keep it, and themselves, in memory.
    pub fn shutdown(&self) {
        self.0.ready.close();
        for process in self.processes() {
            self.close_process(process);
        }
        let tasks = self.0.tasks.borrow_mut().cancel_all(None);
        drop(tasks);
        let timers = self.0.timers.borrow_mut().clear();
        drop(timers);
        let network = self.0.network.borrow_mut().clear();
        drop(network);
        let processes = self.forget_processes();
        drop(processes);
        self.set_recorder(None);
        let outside = self.0.outside.take();
        drop(outside);
    }

    pub(crate) fn downgrade(&self) -> WeakKernel {
        WeakKernel(Rc::downgrade(&self.0))
    }

    pub(crate) fn set_link_timer(&self, time: Time, link: LinkId) -> TimerId {
        self.0.timers.borrow_mut().set_link(time, link)
    }

    #[inline]
    fn run_item(&self, next: Next) {
        match next {
            Next::Task(id) => self.poll_task(id),
            Next::Other(level) => self.run_other(level),
        }
        self.count_event();
    }

    #[inline(never)]
    fn run_other(&self, level: u8) {
        match self.0.ready.take_other(level) {
            Other::Call(call) => call(self),
            Other::Serve(stream) => stream.serve(self),
        }
    }

    #[inline]
    fn count_event(&self) {
        self.0.events.set(self.0.events.get() + 1);
    }

    #[inline]
    fn has_budget(&self) -> bool {
        self.0.events.get() - self.0.events_before.get() < self.0.budget.get()
    }

    #[inline]
    fn check_budget(&self) -> Result<(), Spinning> {
        if self.has_budget() {
            Ok(())
        } else {
            Err(self.spinning())
        }
    }

    #[cold]
    fn spinning(&self) -> Spinning {
        Spinning {
            time: self.now(),
            events: self.0.events.get() - self.0.events_before.get(),
            process: self.0.last_process.get(),
        }
    }

    /// Lets simulated time pass to the earliest timer, unless that lies beyond `limit`, and fires
    /// everything due then. Returns whether there was one.
    #[inline(always)]
    fn advance_until(&self, now: &Cell<Time>, limit: Time) -> bool {
        let taken = self.0.timers.borrow_mut().take_next(limit);
        let Some(first) = taken else {
            return false;
        };
        self.move_clock(now, first.time);
        self.fire(first);
        true
    }

    /// Moves the simulated clock forward; it never goes back.
    #[inline(always)]
    fn move_clock(&self, now: &Cell<Time>, time: Time) {
        if time > now.get() {
            now.set(time);
            self.0.events_before.set(self.0.events.get());
        }
    }

    /// Fires every timer that is due by then.
    fn fire_until(&self, now: Time) {
        loop {
            let taken = self.0.timers.borrow_mut().take_next(now);
            let Some(first) = taken else { return };
            self.fire(first);
        }
    }

    /// Runs every timer of a moment, in the order they were set.
    #[inline]
    fn fire(&self, first: Taken) {
        self.act(first.fired);
        if first.more {
            self.fire_others();
        }
    }

    #[inline(never)]
    fn fire_others(&self) {
        loop {
            let next = self.0.timers.borrow_mut().fire_due();
            match next {
                Some(fired) => self.act(fired),
                None => return,
            }
        }
    }

    #[inline]
    fn act(&self, fired: Fired) {
        self.count_event();
        match fired {
            Fired::Link(link) => self.serve_link(link, true),
            Fired::Task(task) => self.0.ready.wake_task(task),
            Fired::Held(id) => self.act_held(id),
            Fired::Nothing => {}
        }
    }

    #[inline(never)]
    fn act_held(&self, id: TimerId) {
        let held = self.0.timers.borrow_mut().take_held(id);
        match held.expect("a timer that holds something fires once") {
            Held::Waker(waker) => waker.wake(),
            Held::Call(call) => call(self),
        }
    }
}

impl std::fmt::Debug for Kernel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Kernel(seed {}, {} s)", self.0.seed, self.now())
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.ready.close();
    }
}

/// A handle that does not keep the kernel alive.
#[derive(Clone)]
pub(crate) struct WeakKernel(Weak<Inner>);

impl WeakKernel {
    #[inline]
    pub(crate) fn upgrade(&self) -> Option<Kernel> {
        self.0.upgrade().map(Kernel)
    }
}
