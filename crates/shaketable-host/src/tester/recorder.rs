//! What happens in the kernel becomes trace events; the last faults are remembered.

use super::run::Run;
use crate::plan::Recording;
use crate::printf;
use crate::trace::event::NOWHERE;
use crate::trace::{Event as TraceEvent, Severity};
use shaketable_cluster::error::Error;
use shaketable_kernel::{Event, KillKind, ProcessId, Recorder, Time};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::{Rc, Weak};

/// What was recorded.
#[derive(Default, Clone)]
pub(super) struct Recorded {
    recent: Option<Rc<Recent>>,
}

#[derive(Default)]
struct Recent(RefCell<VecDeque<TraceEvent>>);

/// So common that they would push out what matters.
const COMMON: [&str; 4] = [
    "ClogInterface",
    "CloggingPair",
    "ConnectionClosed",
    "SimulatedMachineProcess",
];
/// How many faults are remembered.
const RECENT_MAX: usize = 400;
/// How many of them a report shows.
const AROUND_MAX: usize = 12;

/// Sets the kernel's recorder as `recording` asks.
pub(super) fn install(run: &Rc<Run>, recording: &Recording) -> Recorded {
    if matches!(recording, Recording::Nothing | Recording::Hazards) {
        return Recorded::default();
    }
    let recent = Rc::new(Recent::default());
    run.kernel.set_recorder(Some(Rc::new(Tracer {
        run: Rc::downgrade(run),
        recent: recent.clone(),
        trace: matches!(recording, Recording::Trace { .. }),
    })));
    Recorded {
        recent: Some(recent),
    }
}

/// How often each fault happened, under the name its event has in a trace.
pub(super) fn fault_counts(run: &Run) -> BTreeMap<String, u64> {
    let counts = run.kernel.fault_counts();
    let by_name = [
        ("ClogInterface", counts.clogged_interfaces),
        ("CloggingPair", counts.clogged_pairs),
        ("ConnectionClosed", counts.closed_connections),
        ("KillProcess", counts.killed_processes),
        ("Partitioned", counts.partitions),
        ("RebootingProcess", counts.rebooted_processes),
        ("WorkloadCrashed", run.findings.deaths.count()),
    ];
    let happened = by_name.into_iter().filter(|(_, count)| *count > 0);
    happened
        .map(|(name, count)| (name.to_owned(), count))
        .collect()
}

impl Recent {
    fn remember(&self, event: TraceEvent) {
        let mut recent = self.0.borrow_mut();
        if recent.len() == RECENT_MAX {
            recent.pop_front();
        }
        recent.push_back(event);
    }
}

impl Recorded {
    /// Remembers that an error reached a workload.
    pub(super) fn error(&self, run: &Run, error: Error) {
        let Some(recent) = &self.recent else {
            return;
        };
        let process = run.kernel.current_process();
        let machine = process.map_or(NOWHERE.to_owned(), |process| address(run, process));
        let event = TraceEvent::new(Severity::Debug, run.now(), "TransactionError")
            .on(machine, "TS")
            .detail("ErrorCode", error.0)
            .detail("Error", error.name());
        // Conflicts are common; a commit of unknown fate is worth noting.
        if error.is_maybe_committed() {
            recent.remember(event.clone());
        }
        run.trace(event);
    }

    /// The last faults up to a moment.
    pub(super) fn faults_around(&self, time: f64) -> Vec<TraceEvent> {
        let Some(recent) = &self.recent else {
            return Vec::new();
        };
        let recent = recent.0.borrow();
        let before: Vec<&TraceEvent> = recent.iter().filter(|event| event.time <= time).collect();
        let skip = before.len().saturating_sub(AROUND_MAX);
        before.into_iter().skip(skip).cloned().collect()
    }
}

struct Tracer {
    run: Weak<Run>,
    recent: Rc<Recent>,
    trace: bool,
}

impl Recorder for Tracer {
    fn record(&self, time: Time, event: &Event) {
        let Some(run) = self.run.upgrade() else {
            return;
        };
        let Some((event, is_fault)) = describe(&run, time, event) else {
            return;
        };
        if !COMMON.contains(&event.kind.as_str()) {
            self.recent.remember(event.clone());
        }
        match (self.trace, is_fault) {
            (true, true) => run.trace_fault(event),
            (true, false) => {
                run.trace(event);
            }
            (false, _) => {}
        }
    }
}

/// The trace event for something that happened, in FoundationDB's names where it has one, and
/// whether it is a fault. Single messages are left out: a trace is for people.
fn describe(run: &Run, time: Time, event: &Event) -> Option<(TraceEvent, bool)> {
    let info = |kind: &str| TraceEvent::new(Severity::Info, time.as_secs(), kind);
    let seconds = |until: &Time| printf::g(until.since(time));
    Some(match event {
        Event::MessageSent { .. } | Event::MessageDelivered { .. } | Event::MessageLost { .. } => {
            return None;
        }
        Event::ConnectionClosed { a, b } => (
            info("ConnectionClosed")
                .detail("From", address(run, *a))
                .detail("To", address(run, *b)),
            true,
        ),
        Event::ProcessBooted {
            process,
            incarnation,
        } => (
            info("SimulatedMachineProcess")
                .on(address(run, *process), "")
                .detail("Address", address(run, *process))
                .detail("ZoneId", &run.kernel.process(*process).zone)
                .detail("BootCount", incarnation + 1),
            false,
        ),
        Event::ProcessKilled { process, kind } => (
            info(if kind.reboots() {
                "RebootingProcess"
            } else {
                "KillProcess"
            })
            .on(address(run, *process), "")
            .detail("KillType", kill_name(*kind))
            .detail("Address", address(run, *process))
            .detail("ZoneId", &run.kernel.process(*process).zone),
            true,
        ),
        Event::PairClogged { from, to, until } => (
            info("CloggingPair")
                .detail("From", from)
                .detail("To", to)
                .detail("Seconds", seconds(until)),
            true,
        ),
        Event::InterfaceClogged { ip, until } => (
            info("ClogInterface")
                .detail("IP", ip)
                .detail("Delay", seconds(until))
                .detail("Queue", "Receive"),
            true,
        ),
        Event::Partitioned { a, b, healed } => (
            info(if *healed {
                "PartitionHealed"
            } else {
                "Partitioned"
            })
            .detail("From", a)
            .detail("To", b),
            !healed,
        ),
        Event::User { name, details } => {
            let mut event = info(name);
            event.details = details
                .iter()
                .map(|(key, value)| (key.to_string(), value.clone()))
                .collect();
            let place = event.details.iter().position(|(key, _)| key == "Machine");
            if let Some(place) = place {
                event.machine = event.details.remove(place).1;
            }
            (event, false)
        }
    })
}

fn address(run: &Run, process: ProcessId) -> String {
    run.kernel.process(process).address.to_string()
}

fn kill_name(kind: KillKind) -> String {
    format!("{kind:?}")
}
