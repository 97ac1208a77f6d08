//! What a workload asks its host: time, randomness, options, traces.
//!
//! A [`WorkloadContext`] can be cloned, kept and sent anywhere, but it cannot dangle. The host's
//! side of it dies when the host frees the workload, and it belongs to the simulation's one thread;
//! a copy used later, or on another thread, complains on stderr and returns a harmless value
//! instead of reaching into freed memory.
//!
//! Options of the test file are read in `options.rs`, delays begin in `delay.rs`.

mod delay;
mod options;

pub(crate) use delay::Delay;
pub use options::OptionError;

use crate::clock::Clock;
use crate::crash::{Crashes, OptionMemory};
use crate::details;
use crate::draw;
use crate::executor::HomeThread;
use crate::executor::scope::Scope;
use crate::host::HostContext;
use crate::phase::PhaseObserver;
use crate::rng::Rng;
use crate::stderr::complain;
use crate::trace_event::compose;
use shaketable_abi as abi;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// A workload's view of the simulation: one client of one workload block of the test file.
///
/// ```
/// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
/// #     .test(async |_db, context: shaketable::WorkloadContext| {
/// let me = format!("client {} of {}", context.client_id(), context.client_count());
/// let later = context.clone(); // to be kept wherever it is needed
/// assert_eq!(me, "client 0 of 1");
/// # drop(later);
/// # });
/// ```
#[derive(Clone)]
pub struct WorkloadContext(Arc<Shared>);

struct Shared {
    host: HostContext,
    thread: HomeThread,
    alive: AtomicBool,
    workload: String,
    client_id: i32,
    client_count: i32,
    /// The process that the client runs on.
    process: u64,
    shared_random_number: i64,
    #[cfg(feature = "assertions")]
    is_buggified: bool,
    options: OptionMemory,
    /// Set at once, by `new`.
    crashes: OnceLock<Option<Crashes>>,
    #[cfg(feature = "assertions")]
    asks_about_decisions: bool,
    /// Whether the host wants to know when an assertion holds for the first time.
    #[cfg(feature = "assertions")]
    wants_moments: bool,
}

// SAFETY: `host` is the only field that is not `Send` and `Sync` by itself, and it is used only
// after `thread` has confirmed that this is the simulation's thread.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// How much an event matters to the trace log.
///
/// ```
/// use shaketable::Severity;
///
/// assert!(Severity::Error > Severity::Warn);
/// assert!(Severity::Info > Severity::Debug);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum Severity {
    /// Written only where it was asked for.
    Debug = abi::FDB_SEVERITY_DEBUG as u32,
    /// An ordinary event.
    Info = abi::FDB_SEVERITY_INFO as u32,
    /// Unusual, but expected to happen.
    Warn = abi::FDB_SEVERITY_WARN as u32,
    /// Unusual, and never suppressed.
    WarnAlways = abi::FDB_SEVERITY_WARN_ALWAYS as u32,
    /// Fails the run. The simulation goes on to its end.
    Error = abi::FDB_SEVERITY_ERROR as u32,
}

/// A simulated process, as [`WorkloadContext::get_process_id`] returned it.
///
/// The real server takes such a number for the address of an object, so none can be made up.
///
/// ```
/// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
/// #     .test(async |_db, context: shaketable::WorkloadContext| {
/// let process: shaketable::ProcessId = context.get_process_id();
/// assert_eq!(process, context.get_process_id());
/// # });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ProcessId(u64);

impl WorkloadContext {
    /// The context of the phase (or factory) that is running on this thread, if one is.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
    /// #     .test(async |_db, context: shaketable::WorkloadContext| {
    /// fn note(what: &str) {
    ///     // Deep inside the layer, where no context was passed.
    ///     if let Some(context) = shaketable::WorkloadContext::current() {
    ///         let details = shaketable::details!["What" => what];
    ///         context.trace(shaketable::Severity::Info, "Noted", details);
    ///     }
    /// }
    /// note("a page was split");
    /// # });
    /// ```
    pub fn current() -> Option<Self> {
        Scope::current()?
            .observer::<PhaseObserver>()?
            .context()
            .cloned()
    }

    /// Whether the host still knows this workload.
    ///
    /// After the host has freed it, every copy of its context is dead: calls do nothing, return
    /// zero or `None`, and complain on stderr that they came too late.
    pub fn is_alive(&self) -> bool {
        self.0.alive.load(Ordering::Relaxed)
    }

    /// The version of the workload ABI that the host announced: a small positive number.
    pub fn get_workload_api_version(&self) -> i32 {
        self.0.host.api_version()
    }

    /// Writes an event into FoundationDB's trace log.
    ///
    /// Nothing that is passed here can harm the run. Keys get a capital first letter; a detail
    /// without key or value is left out; NUL bytes are written as `\x00`; values are cut at 495
    /// bytes, as the server would; an event that is too large for the log is split into parts.
    ///
    /// Each event has a detail `RustWorkload=1`, and one of [`Severity::Error`] also
    /// `RustFailure=1`: words to search a server's traces for. A detail of the same name replaces
    /// it.
    ///
    /// ```no_run
    /// # use shaketable::{Severity, WorkloadContext, details};
    /// # fn example(context: WorkloadContext) {
    /// context.trace(Severity::Info, "Transferred", details!["From" => 3, "Amount" => 100]);
    /// # }
    /// ```
    pub fn trace<S, S2, S3>(&self, severity: Severity, name: S, details: &[(S2, S3)])
    where
        S: Into<Vec<u8>>,
        S2: AsRef<str>,
        S3: AsRef<str>,
    {
        let Some(host) = self.host("trace") else {
            return;
        };
        let details = details
            .iter()
            .map(|(key, value)| (key.as_ref(), value.as_ref()));
        let is_error = matches!(severity, Severity::Error);
        for event in compose(&name.into(), is_error, details) {
            host.trace(severity as abi::FDBSeverity, &event.name, &event.details);
        }
    }

    /// The simulated process that is running. An address in the real server, so it differs from run
    /// to run.
    pub fn get_process_id(&self) -> ProcessId {
        let host = self.host("get_process_id");
        ProcessId(host.map_or(0, |host| host.get_process_id()))
    }

    /// Declares the simulated process that is running.
    ///
    /// It can only be the client's own, after something else has changed it: a server ends when a
    /// call returns as a different process. Any other is refused, with a complaint on stderr.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
    /// #     .test(async |_db, context: shaketable::WorkloadContext| {
    /// let process = context.get_process_id();
    /// // … a call of something that changes it …
    /// context.set_process_id(process);
    /// assert_eq!(context.get_process_id(), process);
    /// # });
    /// ```
    pub fn set_process_id(&self, id: ProcessId) {
        let Some(host) = self.host("set_process_id") else {
            return;
        };
        // The number is an address in the real server, and what returns to it as another process
        // than it was called as ends it.
        if id.0 != self.0.process {
            complain!(
                "WorkloadContext::set_process_id of workload `{}`, client {}, was given another \
                 process than its own; the call did nothing",
                self.0.workload,
                self.0.client_id
            );
            return;
        }
        host.set_process_id(id.0);
    }

    /// The simulated time in seconds, since the simulation began.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
    /// #     .test(async |_db, context: shaketable::WorkloadContext| {
    /// let before = context.now();
    /// shaketable::sleep(std::time::Duration::from_millis(1500)).await;
    /// assert!((context.now() - before - 1.5).abs() < 1e-6);
    /// # });
    /// ```
    pub fn now(&self) -> f64 {
        self.host("now").map_or(0.0, |host| host.now())
    }

    /// The next number of the simulation's random generator: the same in every run of a seed.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
    /// #     .test(async |_db, context: shaketable::WorkloadContext| {
    /// let account = context.rnd() % 100;
    /// assert!(account < 100);
    /// # });
    /// ```
    pub fn rnd(&self) -> u32 {
        self.host("rnd").map_or(0, |host| host.rnd())
    }

    /// The simulation's random generator, for code that takes one: see [`Rng`].
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
    /// #     .test(async |_db, context: shaketable::WorkloadContext| {
    /// use rand::RngExt;
    ///
    /// let account = context.rng().random_range(0..100);
    /// assert!(account < 100);
    /// # });
    /// ```
    pub fn rng(&self) -> Rng {
        Rng::new(self.clone())
    }

    /// The simulation's clock, for code that takes one: see [`Clock`].
    pub fn clock(&self) -> Clock {
        Clock::simulated(self.clone())
    }

    /// Picks some of these operations for this seed, at least one; the same on all clients.
    ///
    /// A test that does everything all the time seldom goes far in any one direction: where half of
    /// all operations empty a queue, it is never long. So each seed leaves out some of them, each
    /// with a chance of one half. Whether an operation is picked is decided by the seed and its
    /// text, and draws no random number. The choice is traced as `WorkloadSwarm`, with `Picked` and
    /// `LeftOut`, by client 0.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
    /// #     .test(async |_db, context: shaketable::WorkloadContext| {
    /// let operations = context.swarm(["push", "pop", "peek", "clear"]);
    /// for _ in 0..100 {
    ///     match operations[context.rnd() as usize % operations.len()] {
    ///         "push" => { /* … */ }
    ///         # "pop" | "peek" | "clear" => {}
    ///         other => panic!("{other} is not one of them"),
    ///     }
    /// }
    /// # });
    /// ```
    pub fn swarm<T: fmt::Display>(&self, operations: impl IntoIterator<Item = T>) -> Vec<T> {
        let number = |text: &str| draw::number(self.shared_random_number(), text, &[SWARM]);
        let (mut picked, mut left_out): (Vec<T>, Vec<T>) = operations
            .into_iter()
            .partition(|operation| draw::chance(0.5, number(&operation.to_string())));
        if picked.is_empty() && !left_out.is_empty() {
            let index = number("") % left_out.len() as u64;
            picked.push(left_out.remove(index as usize));
        }
        if self.client_id() == 0 {
            let list = |operations: &[T]| {
                let texts: Vec<String> = operations.iter().map(T::to_string).collect();
                texts.join(", ")
            };
            self.trace(
                Severity::Info,
                "WorkloadSwarm",
                details!["Picked" => list(&picked), "LeftOut" => list(&left_out)],
            );
        }
        picked
    }
    /// This client's number, from 0.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).clients(3)
    /// #     .test(async |db, context| -> shaketable::PhaseResult {
    /// if context.client_id() == 0 {
    ///     // One client fills the database for all.
    ///     db.run(|trx, _| async move {
    ///         trx.set(b"tickets left", &1000_u64.to_le_bytes());
    ///         Ok(())
    ///     })
    ///     .await?;
    /// }
    /// # Ok(())
    /// # });
    /// ```
    pub fn client_id(&self) -> i32 {
        self.0.client_id
    }

    /// How many clients run this workload.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).clients(3).test(async |_db, context| {
    /// let made_by_each = 10;
    /// assert_eq!(made_by_each * context.client_count(), 30);
    /// # });
    /// ```
    pub fn client_count(&self) -> i32 {
        self.0.client_count
    }

    /// A random number that all clients of the test share.
    ///
    /// ```
    /// # shaketable::Simulation::new().seeds(1).faults(shaketable::Faults::none())
    /// #     .test(async |_db, context: shaketable::WorkloadContext| {
    /// // All clients agree on the account that is closed in this seed.
    /// let closed = context.shared_random_number() % 100;
    /// assert_eq!(closed, context.shared_random_number() % 100);
    /// # });
    /// ```
    pub fn shared_random_number(&self) -> i64 {
        self.0.shared_random_number
    }

    /// A context over a host that was just checked.
    pub(crate) fn new(host: HostContext, workload: String) -> Self {
        // Read here, because an option that is never read is an error.
        #[cfg(all(feature = "measure", not(feature = "embedded")))]
        crate::measure::begin(&host.get_option(c"shaketableMeasure"));
        let context = WorkloadContext(Arc::new(Shared {
            thread: HomeThread::current(),
            alive: AtomicBool::new(true),
            workload,
            client_id: host.client_id(),
            client_count: host.client_count(),
            process: host.get_process_id(),
            shared_random_number: host.shared_random_number(),
            // Read here, because an option that is never read is an error.
            #[cfg(feature = "assertions")]
            is_buggified: host.get_option(c"shaketableBuggify") != "off",
            options: OptionMemory::default(),
            crashes: OnceLock::new(),
            #[cfg(feature = "assertions")]
            asks_about_decisions: host.get_option(c"shaketableDecisions") == "ask",
            #[cfg(feature = "assertions")]
            wants_moments: host.get_option(c"shaketableMoments") == "tell",
            host,
        }));
        context.0.crashes.get_or_init(|| Crashes::read(&context));
        #[cfg(all(feature = "hermetic", not(feature = "embedded")))]
        crate::hermetic::enter(&context);
        context
    }

    /// Whether `buggify!` may fire.
    #[cfg(feature = "assertions")]
    pub(crate) fn is_buggified(&self) -> bool {
        self.0.is_buggified
    }

    /// Whether this client is to die, and when.
    pub(crate) fn crashes(&self) -> Option<&Crashes> {
        self.0.crashes.get()?.as_ref()
    }

    /// The client begins to wait: asks a host that looks for every death whether it dies of it.
    pub(crate) fn ask_about_await(&self) -> String {
        self.0.host.get_option(c"shaketableAwait")
    }

    /// The client died: its next life reads its options again.
    pub(crate) fn begin_life(&self) {
        self.0.options.begin_life();
    }

    /// Whether the host decides when `buggify!` fires: it lists decisions, or a case overrides
    /// them.
    #[cfg(feature = "assertions")]
    pub(crate) fn asks_about_decisions(&self) -> bool {
        self.0.asks_about_decisions
    }

    /// What the host decides about a buggified place, given what chance says.
    #[cfg(feature = "assertions")]
    pub(crate) fn decide(&self, place: &str, drawn: bool) -> bool {
        let words = [c"off", c"on"];
        let Ok(question) = std::ffi::CString::new(format!("shaketableDecision {place}")) else {
            return drawn;
        };
        let decided = self
            .0
            .host
            .get_option_or(&question, words[usize::from(drawn)]);
        decided == "on"
    }

    /// An assertion held for the first time: tells a host that wants to know.
    #[cfg(feature = "assertions")]
    pub(crate) fn tell_moment(&self, assertion: &str) {
        if self.0.wants_moments
            && let Ok(name) = std::ffi::CString::new(format!("shaketableMoment {assertion}"))
        {
            self.0.host.get_option(&name);
        }
    }

    /// The workload's name.
    pub(crate) fn workload(&self) -> &str {
        &self.0.workload
    }

    /// Whether both are of the same workload.
    #[cfg(all(feature = "hermetic", not(feature = "embedded")))]
    pub(crate) fn is_same(&self, other: &WorkloadContext) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The host is about to forget this workload.
    pub(crate) fn kill(&self) {
        #[cfg(all(feature = "hermetic", not(feature = "embedded")))]
        crate::hermetic::leave(self);
        self.0.alive.store(false, Ordering::Relaxed);
    }

    /// The host, for a call that may reach it.
    fn host(&self, method: &str) -> Option<&HostContext> {
        let shared = &*self.0;
        if shared.thread.is_current() && self.is_alive() {
            return Some(&shared.host);
        }
        self.complain(method);
        None
    }

    #[cold]
    fn complain(&self, method: &str) {
        let Shared {
            workload,
            client_id,
            ..
        } = &*self.0;
        let why = if self.is_alive() {
            "from another thread than the simulation's"
        } else {
            "after the host had freed the workload"
        };
        complain!(
            "WorkloadContext::{method} of workload `{workload}`, client {client_id}, \
             was called {why}; the call did nothing"
        );
    }
}

impl fmt::Debug for WorkloadContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkloadContext")
            .field("workload", &self.0.workload)
            .field("client_id", &self.0.client_id)
            .field("client_count", &self.0.client_count)
            .field("alive", &self.is_alive())
            .finish()
    }
}

/// Sets the draws of `swarm` apart from others of the same name.
const SWARM: u64 = 0x7377_6172_6d00;

/// Details for [`WorkloadContext::trace`], from anything that can be displayed.
///
/// ```
/// # use shaketable::details;
/// let details: &[(&String, &String)] = details!["Client" => 3, "Stage" => "setup"];
/// assert_eq!(details[0].1, "3");
/// ```
#[macro_export]
macro_rules! details {
    () => {
        &[] as &[(&str, &str)]
    };
    ($($key:expr => $value:expr),+ $(,)?) => {
        &[$((&$key.to_string(), &$value.to_string())),+]
    };
}
