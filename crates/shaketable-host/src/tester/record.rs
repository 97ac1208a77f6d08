//! The record of a run: what the C border, the phases and the trace have to say, as one document.
//!
//! [`Notes`] collects while the run goes on, if a record is wanted. When the run is over, however
//! it ended, [`Notes::finish`] joins what the recorder of the C border kept with the phases, the
//! events and the verdict, and looks up lines and directories.

mod directories;

use crate::call_site;
use crate::case::TakenDecision;
use crate::coverage;
use crate::failure_folder;
use crate::plan::{KnownDeath, RecordTo, Recording, Values};
use crate::story::Story;
use crate::trace::event::NOWHERE;
use crate::trace::{Event as TraceEvent, Severity, is_tag};
use crate::verdict::{Cause, Drawn, Failure, Hazards, Outcome, Phase as PhaseOfRun, Swarm};
use shaketable_cluster::checker::{Bounds, History};
use shaketable_cluster::cluster::Cluster;
use shaketable_explain::{Evidence, Finding, lint};
use shaketable_fdbc::{RecordSettings, Recorded};
use shaketable_kernel::{Kernel, ProcessId};
use shaketable_record::{
    Decision, Event, Header, LeftOut, Phase, PhaseId, Place, PlaceId, Record, Stream, Verdict,
};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// How many attempts a record holds.
const ATTEMPTS_MAX: usize = 100_000;
/// How many operations a record holds.
const OPERATIONS_MAX: usize = 400_000;
/// How many bytes they may take in memory, about.
const OPERATION_BYTES_MAX: usize = 192 << 20;
/// How many transactions that committed a record holds.
const COMMITTED_MAX: usize = 200_000;
/// How many bytes of keys and values these may have.
const COMMITTED_BYTES_MAX: usize = 64 << 20;
/// How many events a record holds.
const EVENTS_MAX: usize = 100_000;
/// How many decisions a record holds.
const DECISIONS_MAX: usize = 100_000;
/// How many bytes of a value a record shows, if it is not asked for more.
const SHORT_VALUE_BYTES: usize = 256;
/// How many operations of the client that failed a report shows.
const STORY_OPERATIONS: usize = 10;
/// The events that say what operations say too.
const TOLD_BY_OPERATIONS: &str = "TransactionError";

/// The events after which roles may be played by others.
const CHANGE_ROLES: [&str; 4] = [
    "MasterRecoveryState",
    "RebootingProcess",
    "KillProcess",
    "SimulatedMachineProcess",
];

/// The processes of a cluster and what they are.
type Roles = BTreeSet<(ProcessId, &'static str)>;

/// What is noted of a run beside its transactions.
pub(super) struct Notes {
    /// Where the record goes; nowhere if it is only searched for hazards.
    to: Option<RecordTo>,
    pub(super) history: History,
    phases: RefCell<Vec<Phase>>,
    events: RefCell<VecDeque<Event>>,
    events_left_out: Cell<u64>,
    /// Who played which role when that was looked at last, and whether it may have changed.
    roles: RefCell<Roles>,
    roles_changed: Cell<bool>,
}

impl Notes {
    /// The notes of a run whose transactions are to be recorded.
    pub(super) fn of(recording: &Recording) -> Option<Notes> {
        recording.is_of_transactions().then(|| Notes {
            to: recording.record().cloned(),
            history: History::bounded(Bounds {
                transactions: COMMITTED_MAX,
                bytes: COMMITTED_BYTES_MAX,
            }),
            phases: RefCell::default(),
            events: RefCell::default(),
            events_left_out: Cell::new(0),
            roles: RefCell::default(),
            roles_changed: Cell::new(true),
        })
    }

    /// What the recorder of the C border keeps.
    pub(super) fn settings(&self) -> RecordSettings {
        RecordSettings {
            history: self.history.clone(),
            value_bytes_max: match self.to.as_ref().map_or(Values::Short, |to| to.values) {
                Values::None => 0,
                Values::Short => SHORT_VALUE_BYTES,
                Values::Full => usize::MAX,
            },
            attempts_max: ATTEMPTS_MAX,
            operations_max: OPERATIONS_MAX,
            bytes_max: OPERATION_BYTES_MAX,
        }
    }

    /// A phase of a client's workload begins.
    pub(super) fn begin_phase(
        &self,
        client: u32,
        test: &str,
        workload: &str,
        phase: PhaseOfRun,
        now: f64,
    ) -> PhaseId {
        let mut phases = self.phases.borrow_mut();
        phases.push(Phase {
            client,
            test: test.to_owned(),
            workload: workload.to_owned(),
            phase: phase.name().to_owned(),
            begun: now,
            ended: None,
            error: None,
        });
        phases.len() as PhaseId - 1
    }

    /// It has ended.
    pub(super) fn end_phase(&self, phase: PhaseId, now: f64, error: Option<String>) {
        let mut phases = self.phases.borrow_mut();
        let phase = &mut phases[phase as usize];
        phase.ended = Some(now);
        phase.error = error;
    }

    /// Something was traced.
    pub(super) fn event(&self, event: &TraceEvent, fault: bool) {
        if event.kind == TOLD_BY_OPERATIONS {
            return;
        }
        if CHANGE_ROLES.contains(&event.kind.as_str()) {
            self.roles_changed.set(true);
        }
        let machine = event.machine.as_str();
        let details = event.details.iter().filter(|(key, _)| !is_tag(key));
        self.push(Event {
            time: event.time,
            name: event.kind.clone(),
            machine: if machine == NOWHERE { "" } else { machine }.to_owned(),
            fault,
            details: details.cloned().collect(),
        });
    }

    fn push(&self, event: Event) {
        let mut events = self.events.borrow_mut();
        if events.len() == EVENTS_MAX {
            events.pop_front();
            self.events_left_out.set(self.events_left_out.get() + 1);
        }
        events.push_back(event);
    }

    /// Notes which roles the processes of the cluster have taken up and given up, if anything has
    /// happened that may change that. The trace does not have them.
    pub(super) fn look_at_roles(&self, kernel: &Kernel, cluster: Option<&Cluster>) {
        let Some(cluster) = cluster.filter(|_| self.roles_changed.replace(false)) else {
            return;
        };
        let mut now: Roles = cluster
            .roles()
            .into_iter()
            .map(|(role, process)| (process, role))
            .collect();
        let is_generation_known = cluster.epoch().is_some();
        let alive = |process| kernel.is_alive(process);
        keep_unknown(&self.roles.borrow(), &mut now, is_generation_known, alive);
        let before = self.roles.replace(now.clone());
        let ended = before.difference(&now).map(|role| ("End", role));
        let begun = now.difference(&before).map(|role| ("Begin", role));
        for (transition, (process, role)) in ended.chain(begun) {
            self.push(Event {
                time: kernel.now().as_secs(),
                name: "Role".to_owned(),
                machine: kernel.process(*process).address.to_string(),
                fault: false,
                details: vec![
                    ("As".to_owned(), (*role).to_owned()),
                    ("Transition".to_owned(), transition.to_owned()),
                ],
            });
        }
    }

    /// Writes the record of a run that is over, and takes from it what a report shows; or searches
    /// it for hazards, and writes nothing. Opens files, so nothing of the code under test may be
    /// going on.
    pub(super) fn conclude(
        &self,
        recorded: Recorded,
        (decisions, streams): (Vec<TakenDecision>, Vec<Stream>),
        outcome: &mut Outcome,
        file: String,
    ) {
        let mut record = self.finish(recorded, outcome, file);
        record.header.streams = streams;
        let decisions = decisions.into_iter().take(DECISIONS_MAX);
        record.decisions = decisions.map(Decision::from).collect();
        outcome.lines_found = call_site::found();
        outcome.frames_found = coverage::take_found();
        match &self.to {
            Some(to) => write(&record, outcome, to),
            None => outcome.hazards = Some(hazards(&record)),
        }
    }

    /// Just before which moment the run ends, because its process dies there.
    pub(super) fn death(&self) -> Option<&KnownDeath> {
        self.to.as_ref()?.death.as_ref()
    }

    fn finish(&self, recorded: Recorded, outcome: &Outcome, file: String) -> Record {
        let mut recorded = recorded;
        let died = self.death().map(|death| &death.verdict);
        let failures = died.unwrap_or(&outcome.failures);
        let (places, ids) = places(&recorded.places);
        for operation in &mut recorded.operations {
            operation.place = operation.place.and_then(|place| ids[place as usize]);
        }
        let directories = directories::find(&recorded.committed, &recorded.operations);
        Record {
            decisions: Vec::new(),
            header: Header {
                program: concat!("shaketable ", env!("CARGO_PKG_VERSION")).to_owned(),
                host: "embedded".to_owned(),
                file,
                seed: outcome.seed,
                buggify: outcome.drawn.buggify,
                drawn: drawn(&outcome.drawn),
                reproduce: self.to.as_ref().and_then(|to| to.reproduce.clone()),
                clients: outcome.drawn.clients,
                cluster: outcome.drawn.cluster.clone(),
                verdict: verdict(failures),
                seconds: outcome.simulated_seconds,
                directories,
                left_out: LeftOut {
                    events: self.events_left_out.get(),
                    ..recorded.left_out
                },
                streams: Vec::new(),
            },
            places,
            phases: self.phases.take(),
            attempts: recorded.attempts,
            operations: recorded.operations,
            committed: recorded.committed,
            events: self.events.take().into(),
        }
    }
}

/// Writes a record to its folder, and takes from it what a report shows.
fn write(record: &Record, outcome: &mut Outcome, to: &RecordTo) {
    let explanation = shaketable_explain::explain(record);
    outcome.cause = explanation.findings.first().map(|finding| Cause {
        name: finding.name.to_owned(),
        sentence: finding.sentence.clone(),
        advice: finding.advice.clone(),
        place: place_of(finding, record),
    });
    outcome.story = Story::of(record).of_failure(STORY_OPERATIONS);
    super::deaths::add_places(&mut outcome.deaths, record);
    match failure_folder::write(record, &explanation, &to.path) {
        Ok(()) => outcome.record = Some(to.path.display().to_string()),
        Err(error) => {
            let event = TraceEvent::new(
                Severity::Error,
                outcome.simulated_seconds,
                "RecordNotWritten",
            );
            outcome.notable.push(event.detail("Error", error));
        }
    }
}

/// The line of the last call that proves a finding: what it says was done in the end was done
/// there. A finding that is proved by commits alone has the line of the last of them.
fn place_of(finding: &Finding, record: &Record) -> Option<String> {
    let of_call = |id: u32| record.operations[id as usize].place;
    let of_commit = |attempt: u32| {
        let commit = record.attempts[attempt as usize].commit.as_ref()?;
        of_call(commit.operation)
    };
    let proof = || finding.proof.iter().rev();
    let mut calls = proof().filter_map(|proof| match proof.at {
        Evidence::Operation(id) => of_call(id),
        Evidence::Attempt(_) | Evidence::Committed(_) => None,
    });
    let mut commits = proof().filter_map(|proof| match proof.at {
        Evidence::Operation(_) => None,
        Evidence::Attempt(id) => of_commit(id),
        Evidence::Committed(id) => of_commit(record.committed[id as usize].attempt?),
    });
    let place = &record.places[calls.next().or_else(|| commits.next())? as usize];
    Some(format!("{}:{}", place.file, place.line))
}

/// The hazards in a record.
fn hazards(record: &Record) -> Hazards {
    Hazards {
        found: lint::hazards(record),
        hot_keys: lint::hot_keys(record),
    }
}

/// Keeps the roles of which nothing is known at the moment. Only a controller knows who plays the
/// others, and only outside of a recovery who commits: until then a role is played by whom it was
/// played, if that process lives.
fn keep_unknown(
    before: &Roles,
    now: &mut Roles,
    is_generation_known: bool,
    alive: impl Fn(ProcessId) -> bool,
) {
    const CONTROLLER: &str = "clustercontroller";
    let is_controller_known = now.iter().any(|(_, role)| *role == CONTROLLER);
    let is_known = |role: &str| match role {
        CONTROLLER => true,
        "storage" => is_controller_known,
        _ => is_generation_known,
    };
    let unknown = before.iter().filter(|(_, role)| !is_known(role));
    now.extend(unknown.filter(|(process, _)| alive(*process)));
}

/// How the seed chose to be run, in words; empty if it had no choice.
fn drawn(drawn: &Drawn) -> String {
    match drawn.swarm {
        Swarm::Off => String::new(),
        _ if drawn.faults.is_empty() => drawn.describe(),
        _ => format!("{}: {}", drawn.describe(), drawn.faults.join(", ")),
    }
}

fn verdict(failures: &[Failure]) -> Verdict {
    let Some(failure) = failures.first() else {
        return Verdict {
            passed: true,
            ..Verdict::default()
        };
    };
    Verdict {
        passed: false,
        kind: Some(failure.kind.describe().to_owned()),
        message: Some(failure.message.clone()),
        client: failure.client,
        workload: Some(failure.workload.clone()),
        phase: Some(failure.phase.name().to_owned()),
        time: Some(failure.time),
    }
}

/// The lines of calls, each line once, and for each call the number of its line.
fn places(calls: &[usize]) -> (Vec<Place>, Vec<Option<PlaceId>>) {
    let mut places = Vec::new();
    let mut known: BTreeMap<(String, u32, String), PlaceId> = BTreeMap::new();
    let ids = calls.iter().map(|call| {
        let place = call_site::author_place(*call)?;
        let key = (place.file.clone(), place.line, place.function.clone());
        Some(*known.entry(key).or_insert_with(|| {
            places.push(place);
            places.len() as PlaceId - 1
        }))
    });
    let ids = ids.collect();
    (places, ids)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shaketable_explain::Proof;
    use shaketable_kernel::ProcessSpec;
    use shaketable_record::{
        Answer, Attempt, Call, Commit, Committed, End, Fate, Operation, Place,
    };

    /// A transaction that writes at line 7 and commits at line 9.
    fn a_write_and_its_commit() -> Record {
        let operation = |line, call| Operation {
            attempt: 0,
            asked: 1.0,
            answered: None,
            place: Some(line),
            call,
            answer: Answer::Nothing,
        };
        let place = |line| Place {
            file: "src/queue.rs".into(),
            line,
            function: String::new(),
        };
        Record {
            places: vec![place(7), place(9)],
            operations: vec![operation(0, Call::Commit), operation(1, Call::Commit)],
            attempts: vec![Attempt {
                client: Some(0),
                phase: None,
                transaction: 0,
                number: 1,
                retries: None,
                begun: 0.0,
                ended: None,
                read_version: None,
                end: End::Committed,
                commit: Some(Commit {
                    operation: 1,
                    reads: Vec::new(),
                    writes: Vec::new(),
                    mutations: Vec::new(),
                    fate: Fate::Landed(0),
                    conflict: None,
                }),
            }],
            committed: vec![Committed {
                version: 1,
                batch_index: 0,
                attempt: Some(0),
                mutations: Vec::new(),
            }],
            ..Record::default()
        }
    }

    #[test]
    fn a_finding_has_the_line_of_the_last_call_that_proves_it_or_of_the_last_commit() {
        let finding = |proof: &[Evidence]| Finding {
            name: "a-mistake",
            sentence: String::new(),
            proof: (proof.iter())
                .map(|at| Proof {
                    at: *at,
                    note: String::new(),
                })
                .collect(),
            advice: String::new(),
            times: 1,
        };
        let record = a_write_and_its_commit();
        let place = |proof: &[Evidence]| place_of(&finding(proof), &record);
        let call = Evidence::Operation(0);
        let commit = Evidence::Committed(0);
        assert_eq!(place(&[call, commit]).as_deref(), Some("src/queue.rs:7"));
        assert_eq!(place(&[commit]).as_deref(), Some("src/queue.rs:9"));
        assert_eq!(place(&[]), None);
    }

    #[test]
    fn a_role_does_not_end_because_the_controller_died() {
        let kernel = Kernel::simulation(1);
        let [controller, storage, proxy, dead] =
            [(); 4].map(|()| kernel.add_process(ProcessSpec::default()));
        let before = Roles::from([
            (controller, "clustercontroller"),
            (storage, "storage"),
            (proxy, "commitproxy"),
            (dead, "tlog"),
        ]);
        let alive = |process| process != dead && process != controller;

        let mut now = Roles::new();
        keep_unknown(&before, &mut now, false, alive);
        assert_eq!(
            now,
            Roles::from([(storage, "storage"), (proxy, "commitproxy")])
        );

        // The next controller knows storage servers, and recruits the others.
        let before = now;
        let mut now = Roles::from([(proxy, "clustercontroller")]);
        keep_unknown(&before, &mut now, false, alive);
        let recovering = Roles::from([(proxy, "clustercontroller"), (proxy, "commitproxy")]);
        assert_eq!(now, recovering);

        let mut now = Roles::from([(proxy, "clustercontroller"), (storage, "commitproxy")]);
        keep_unknown(&recovering, &mut now, true, alive);
        let recruited = Roles::from([(proxy, "clustercontroller"), (storage, "commitproxy")]);
        assert_eq!(now, recruited);
    }
}
