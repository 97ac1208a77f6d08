//! Recording what happens, through one narrow trait.
//!
//! With no recorder set the closure given to [`Kernel::record`] is not even called, so that a
//! passing seed pays for nothing; a failing one is run again with a recorder.

use crate::kernel::Kernel;
use crate::process::{KillKind, ProcessId};
use crate::random::Digest;
use crate::time::Time;
use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::IpAddr;
use std::rc::Rc;

/// Receives every event, in order.
pub trait Recorder {
    /// Called for each event. Must not call back into the kernel.
    fn record(&self, time: Time, event: &Event);
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Event {
    /// A message left; `message` is the Rust type of the request, or of the request that is
    /// answered.
    MessageSent {
        from: ProcessId,
        to: ProcessId,
        message: &'static str,
        due: Time,
    },
    /// A message arrived.
    MessageDelivered { from: ProcessId, to: ProcessId },
    /// A message was lost with its connection.
    MessageLost { from: ProcessId, to: ProcessId },
    /// A connection broke.
    ConnectionClosed { a: ProcessId, b: ProcessId },
    /// A process started to run.
    ProcessBooted {
        process: ProcessId,
        incarnation: u32,
    },
    /// A process died.
    ProcessKilled { process: ProcessId, kind: KillKind },
    /// Messages from one address to another are held back.
    PairClogged {
        from: IpAddr,
        to: IpAddr,
        until: Time,
    },
    /// Messages to an address are held back.
    InterfaceClogged { ip: IpAddr, until: Time },
    /// Two addresses were cut off from each other (`healed`: joined again).
    Partitioned { a: IpAddr, b: IpAddr, healed: bool },
    /// Anything else, by its name.
    User {
        name: Cow<'static, str>,
        details: Vec<(Cow<'static, str>, String)>,
    },
}

impl Kernel {
    /// Sets or removes the recorder.
    pub fn set_recorder(&self, recorder: Option<Rc<dyn Recorder>>) {
        self.0.recording.set(recorder.is_some());
        *self.0.recorder.borrow_mut() = recorder;
    }

    /// Whether a recorder is set.
    pub fn is_recording(&self) -> bool {
        self.0.recording.get()
    }

    /// Records an event; the closure is called only if a recorder is set.
    #[inline(always)]
    pub fn record(&self, event: impl FnOnce() -> Event) {
        if self.0.recording.get() {
            self.record_now(event);
        }
    }

    /// Apart, because most runs have no recorder.
    #[cold]
    fn record_now(&self, event: impl FnOnce() -> Event) {
        let recorder = self.0.recorder.borrow().clone();
        if let Some(recorder) = recorder {
            recorder.record(self.now(), &event());
        }
    }

    /// Counts a fault, and records it.
    pub(crate) fn record_fault(&self, fault: Event) {
        let mut counts = self.0.fault_counts.get();
        counts.add(&fault);
        self.0.fault_counts.set(counts);
        self.record(|| fault);
    }

    /// How often each kind of fault has happened so far.
    pub fn fault_counts(&self) -> FaultCounts {
        self.0.fault_counts.get()
    }
}

/// How often each kind of fault has happened. This is counted in every run, with a recorder or
/// without: a sweep sums it up, and a count costs nothing beside the fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct FaultCounts {
    pub closed_connections: u64,
    pub clogged_interfaces: u64,
    pub clogged_pairs: u64,
    pub killed_processes: u64,
    pub partitions: u64,
    pub rebooted_processes: u64,
}

impl FaultCounts {
    fn add(&mut self, event: &Event) {
        match event {
            Event::ConnectionClosed { .. } => self.closed_connections += 1,
            Event::InterfaceClogged { .. } => self.clogged_interfaces += 1,
            Event::PairClogged { .. } => self.clogged_pairs += 1,
            Event::Partitioned { healed: false, .. } => self.partitions += 1,
            Event::ProcessKilled { kind, .. } if kind.reboots() => self.rebooted_processes += 1,
            Event::ProcessKilled { .. } => self.killed_processes += 1,
            Event::MessageSent { .. }
            | Event::MessageDelivered { .. }
            | Event::MessageLost { .. }
            | Event::ProcessBooted { .. }
            | Event::Partitioned { healed: true, .. }
            | Event::User { .. } => {}
        }
    }
}

/// A recorder that keeps a hash of everything: equal runs have equal hashes, and different runs
/// have different ones, except for one chance in 2^64.
#[derive(Default)]
pub struct Fingerprint {
    digest: Cell<Digest>,
    events: Cell<u64>,
}

impl Fingerprint {
    /// Creates a recorder of no events yet.
    pub fn new() -> Rc<Fingerprint> {
        Rc::default()
    }

    /// The hash of everything so far.
    pub fn value(&self) -> u64 {
        self.digest.get().finish()
    }

    /// How many events there were.
    pub fn events(&self) -> u64 {
        self.events.get()
    }
}

impl Recorder for Fingerprint {
    fn record(&self, time: Time, event: &Event) {
        let mut digest = self.digest.get();
        digest.write_u64(time.as_nanos());
        digest.write(format!("{event:?}").as_bytes());
        self.digest.set(digest);
        self.events.set(self.events.get() + 1);
    }
}

/// A recorder that remembers the last events.
pub struct LastEvents {
    capacity: usize,
    events: RefCell<VecDeque<(Time, Event)>>,
}

impl LastEvents {
    /// Creates a recorder that remembers `capacity` events.
    pub fn new(capacity: usize) -> Rc<LastEvents> {
        Rc::new(LastEvents {
            capacity,
            events: RefCell::default(),
        })
    }

    /// What is remembered, oldest first.
    pub fn events(&self) -> Vec<(Time, Event)> {
        self.events.borrow().iter().cloned().collect()
    }
}

impl Recorder for LastEvents {
    fn record(&self, time: Time, event: &Event) {
        let mut events = self.events.borrow_mut();
        if events.len() == self.capacity {
            events.pop_front();
        }
        if self.capacity > 0 {
            events.push_back((time, event.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &'static str) -> Event {
        Event::User {
            name: name.into(),
            details: vec![("Key".into(), "value".into())],
        }
    }

    #[test]
    fn nothing_is_evaluated_while_no_recorder_is_set() {
        let kernel = Kernel::simulation(1);
        kernel.record(|| panic!("evaluated"));
        let last = LastEvents::new(2);
        kernel.set_recorder(Some(last.clone()));
        kernel.record(|| user("a"));
        kernel.set_recorder(None);
        kernel.record(|| panic!("evaluated"));
        assert_eq!(last.events(), [(Time::ZERO, user("a"))]);
    }

    #[test]
    fn faults_are_counted_with_and_without_a_recorder() {
        let kernel = Kernel::simulation(1);
        let (a, b) = ([1, 0, 0, 1].into(), [1, 0, 0, 2].into());
        kernel.clog_pair(a, b, 1.0);
        kernel.set_recorder(Some(LastEvents::new(2)));
        kernel.clog_pair(a, b, 2.0);
        kernel.partition(a, b);
        kernel.heal(a, b);
        let counts = FaultCounts {
            clogged_pairs: 2,
            partitions: 1,
            ..FaultCounts::default()
        };
        assert_eq!(kernel.fault_counts(), counts);
    }

    #[test]
    fn only_the_last_events_are_remembered() {
        let last = LastEvents::new(2);
        for name in ["a", "b", "c"] {
            last.record(Time::ZERO, &user(name));
        }
        assert_eq!(
            last.events(),
            [(Time::ZERO, user("b")), (Time::ZERO, user("c"))]
        );
    }

    #[test]
    fn the_fingerprint_depends_on_every_event_its_time_and_the_order() {
        let print = |events: &[(u64, &'static str)]| {
            let fingerprint = Fingerprint::new();
            for (time, name) in events {
                fingerprint.record(Time::from_nanos(*time), &user(name));
            }
            (fingerprint.value(), fingerprint.events())
        };
        assert_eq!(print(&[(1, "a"), (2, "b")]), print(&[(1, "a"), (2, "b")]));
        assert_ne!(print(&[(1, "a"), (2, "b")]), print(&[(1, "b"), (2, "a")]));
        assert_ne!(print(&[(1, "a"), (2, "b")]), print(&[(1, "a"), (3, "b")]));
        assert_eq!(print(&[(1, "a"), (2, "b")]).1, 2);
    }
}
