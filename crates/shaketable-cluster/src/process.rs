//! One simulated process, as the code that runs on it sees it.
//!
//! A role, a client, the data distributor and a fault workload hold a [`Process`], never the
//! kernel. It lets code do what a program on a machine can do: read the clock, sleep, run tasks,
//! listen, address others by name, use its own disk, and ask its own failure monitor what *it*
//! knows of another process. It cannot tell whether another process truly lives, touch another's
//! disk, or act on the network. So whatever passes between processes passes in messages, and the
//! compiler checks it. `tests/arrows.rs` checks that no file of a role mentions the kernel.
//!
//! What a process may know of others without a message is what a cluster file and a configuration
//! would tell it: `Process::describe` returns the address, the zone and the class of a process,
//! which never change, and nothing of its state.
//!
//! The places where this is not enough are in [`exceptions`], each with its reason.

pub mod exceptions;

use shaketable_kernel::{
    Disk, Endpoint, Event, Forced, Job, Kernel, KillKind, Priority, ProcessId, ProcessSpec,
    Request, RequestStream, Requesting, Sleep, Stream, Task, Time,
};
use std::fmt;
use std::rc::Rc;

/// A process, seen from inside. Cheap to clone.
#[derive(Clone)]
pub struct Process {
    kernel: Kernel,
    id: ProcessId,
}

impl Process {
    /// The view of a process for what will run on it: called where processes are made and booted.
    pub fn new(kernel: &Kernel, id: ProcessId) -> Process {
        Process {
            kernel: kernel.clone(),
            id,
        }
    }

    /// The name by which others know it.
    pub fn id(&self) -> ProcessId {
        self.id
    }

    /// How often it had died when this life began.
    pub(crate) fn incarnation(&self) -> u32 {
        self.kernel.incarnation(self.id)
    }

    /// What a process is: the same whether or not it lives.
    pub(crate) fn describe(&self, process: ProcessId) -> Rc<ProcessSpec> {
        self.kernel.process(process)
    }

    // Time.

    /// The time on its clock.
    pub fn now(&self) -> Time {
        self.kernel.now()
    }

    /// Waits for this many seconds.
    pub fn sleep(&self, seconds: f64) -> Sleep {
        self.kernel.sleep(seconds)
    }

    /// Waits until that moment.
    pub(crate) fn sleep_until(&self, time: Time) -> Sleep {
        self.kernel.sleep_until(time)
    }

    /// Lets everything else run that is ready now.
    pub(crate) fn yield_now(&self) -> Sleep {
        self.kernel.yield_now()
    }

    /// Returns the output of the future, or `None` if it is not ready after this many seconds.
    pub(crate) fn timeout<F: Future>(
        &self,
        seconds: f64,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + use<F> {
        self.kernel.timeout(seconds, future)
    }

    /// Runs `call` between tasks, this many seconds from now, whether or not the process still
    /// lives.
    pub(crate) fn call_after(&self, seconds: f64, call: impl FnOnce() + 'static) {
        let time = self.kernel.now().after(seconds);
        self.kernel.call_at(time, move |_| call());
    }

    /// Whether its clock is simulated.
    pub(crate) fn is_simulation(&self) -> bool {
        self.kernel.is_simulation()
    }

    // Tasks, random draws, the trace.

    /// Runs a task that ends with the process.
    pub(crate) fn spawn<T: 'static>(
        &self,
        priority: Priority,
        future: impl Future<Output = T> + 'static,
    ) -> Task<T> {
        self.kernel.spawn(self.id, priority, future)
    }

    /// Runs a task that nothing waits for and that ends with the process.
    pub(crate) fn start(
        &self,
        priority: Priority,
        future: impl Future<Output = ()> + 'static,
    ) -> Job {
        self.kernel.start(self.id, priority, future)
    }

    /// The random stream of that name: the same one on every process.
    pub(crate) fn stream(&self, name: &str) -> Stream {
        self.kernel.stream(name)
    }

    /// The name it has in the names of decisions.
    pub(crate) fn name(&self) -> String {
        self.describe(self.id).name.clone()
    }

    /// Whether decisions are listed or overridden in this run.
    #[inline]
    pub(crate) fn is_deciding(&self) -> bool {
        self.kernel.is_deciding()
    }

    /// Whether it matters what events are called.
    #[inline]
    pub(crate) fn names_events(&self) -> bool {
        self.kernel.names_events()
    }

    /// Whether something happens, given what chance says; see [`shaketable_kernel::Decision`].
    /// `name` returns the group and the place.
    #[inline]
    pub(crate) fn decide(&self, drawn: bool, name: impl FnOnce() -> (String, String)) -> bool {
        self.kernel.decide(drawn, name)
    }

    /// The same for something that lasts: returns for how many seconds, if it happens.
    pub(crate) fn decide_seconds(
        &self,
        drawn: Option<f64>,
        longest: f64,
        name: impl FnOnce() -> (String, String),
    ) -> Option<f64> {
        self.kernel.decide_seconds(drawn, longest, name)
    }

    /// A process dies, and comes back with its disk after this many seconds: the override of a
    /// decision says so.
    pub(crate) fn reboot(&self, process: ProcessId, seconds: f64) {
        let kernel = self.kernel.clone();
        // Between tasks: it may be the process that this is called on.
        kernel.call_at(kernel.now(), move |kernel| {
            kernel.reboot(process, KillKind::RebootProcess, seconds);
        });
    }

    /// A forced outcome happens now.
    pub(crate) fn happens(&self, forced: &Forced) {
        self.kernel.happens(forced);
    }

    /// Writes an event to the trace; the closure is called only if there is one.
    pub(crate) fn record(&self, event: impl FnOnce() -> Event) {
        self.kernel.record(event);
    }

    // Messages.

    /// Listens for requests of one kind; others need the endpoint to send them.
    pub(crate) fn listen<Q: Request>(&self) -> (Endpoint<Q>, RequestStream<Q>) {
        self.kernel.listen(self.id)
    }

    /// Listens at a name, by which others find the process again after a reboot.
    pub(crate) fn listen_well_known<Q: Request>(&self, name: &'static str) -> RequestStream<Q> {
        self.kernel.listen_well_known(self.id, name)
    }

    /// The endpoint at which a process listens by that name, if it does.
    pub(crate) fn well_known_endpoint<Q: Request>(
        &self,
        process: ProcessId,
        name: &'static str,
    ) -> Endpoint<Q> {
        self.kernel.well_known_endpoint(process, name)
    }

    /// Asks another process; the request breaks with the connection.
    pub(crate) fn request<Q: Request>(&self, to: &Endpoint<Q>, request: Q) -> Requesting<Q::Reply> {
        to.request(self.id, request)
    }

    /// Asks another process; the request outlives its connection.
    pub(crate) fn request_reliably<Q: Request>(
        &self,
        to: &Endpoint<Q>,
        request: Q,
    ) -> Requesting<Q::Reply> {
        to.request_reliably(self.id, request)
    }

    /// Tells another process something whose outcome does not matter.
    pub(crate) fn send<Q: Request>(&self, to: &Endpoint<Q>, request: Q) {
        to.send(self.id, request);
    }

    // What it knows of others.

    /// Whether, as far as this process knows, another has failed.
    pub(crate) fn is_failed(&self, process: ProcessId) -> bool {
        self.kernel.is_failed(self.id, process)
    }

    /// Whether this process knows that it cannot reach another for the rest of the run.
    pub(crate) fn knows_cut_off(&self, process: ProcessId) -> bool {
        self.kernel.is_known_cut_off(self.id, process)
    }

    /// Waits until this process learns that another has failed.
    pub(crate) fn on_failed(&self, process: ProcessId) -> impl Future<Output = ()> + use<> {
        self.kernel.on_failed(self.id, process)
    }

    /// Waits until this process can reach another, as far as it knows.
    pub(crate) fn on_available(&self, process: ProcessId) -> impl Future<Output = ()> + use<> {
        self.kernel.on_available(self.id, process)
    }

    // What survives its death.

    /// Its disk.
    pub(crate) fn disk(&self) -> Disk {
        self.kernel.disk(self.id)
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Process").field(&self.id).finish()
    }
}
