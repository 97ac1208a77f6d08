//! Three coordinators, three that may come after them, and a process that reads and writes.

use super::*;
use crate::cluster::ClusterConfig;
use crate::process::exceptions::Announced;
use crate::server::env::{Env, Instruments};
use crate::server::layout::Layout;
use shaketable_kernel::{Address, Kernel, KillKind, ProcessSpec};

struct Stage {
    kernel: Kernel,
    first: Rc<Quorum>,
    second: Rc<Quorum>,
    writer: ProcessId,
}

impl Stage {
    fn new() -> Stage {
        let kernel = Kernel::simulation(1);
        let config = ClusterConfig::single_process(false);
        let instruments = Instruments::new(&config, kernel.stream("grv rejection"));
        let process = |number: u8| {
            kernel.add_process(ProcessSpec {
                address: Address::v4(1, 1, 1, number, 1),
                ..ProcessSpec::default()
            })
        };
        let servers: Rc<[ProcessId]> = (1..=6).map(process).collect();
        let quorum = |number, processes: &[ProcessId]| {
            Rc::new(Quorum {
                number,
                connection_string: "".into(),
                processes: processes.into(),
            })
        };
        let stage = Stage {
            first: quorum(0, &servers[..3]),
            second: quorum(1, &servers[3..]),
            writer: process(9),
            kernel,
        };
        for server in servers.iter() {
            let (instruments, servers) = (instruments.clone(), servers.clone());
            let first = stage.first.clone();
            let boot = move |kernel: &Kernel, process| {
                let here = Process::new(kernel, process);
                start(&Surroundings {
                    coordinators: Coordinators::new(&here, &first),
                    env: Env::new(here, &instruments),
                    layout: Rc::new(Layout::single_process()),
                    servers: servers.clone(),
                    leader: Announced::default(),
                    client_leader: Announced::default(),
                    begin_distribution: Rc::new(|_| unreachable!("nobody leads")),
                });
            };
            stage.kernel.set_boot(*server, Rc::new(boot));
            stage.kernel.boot(*server);
        }
        stage
    }

    /// The coordinators for somebody who knows only the first ones.
    fn coordinators(&self) -> Coordinators {
        self.kernel.disk(self.writer).remove(quorum::CLUSTER_FILE);
        Coordinators::new(&Process::new(&self.kernel, self.writer), &self.first)
    }

    fn run<T: 'static>(&self, future: impl Future<Output = T>) -> T {
        self.kernel.block_on(future).unwrap()
    }

    fn pass(&self, seconds: f64) {
        self.run(self.kernel.sleep(seconds));
    }

    /// Sends a request to one coordinator of the first quorum.
    fn write_to_one(&self, index: usize, ballot: u64, entry: Entry) -> Answer<bool> {
        let here = Process::new(&self.kernel, self.writer);
        let endpoint = here.well_known_endpoint(self.first.processes[index], "coordinator write");
        let quorum = self.first.number;
        let write = WriteState {
            quorum,
            ballot,
            entry,
        };
        self.run(here.request(&endpoint, write)).unwrap()
    }
}

/// A state that can be told from others.
fn state(next_tag: Tag) -> Rc<CoreState> {
    Rc::new(CoreState {
        next_tag,
        ..CoreState::default()
    })
}

#[test]
fn a_coordinator_that_comes_back_without_its_disk_has_no_vote() {
    let stage = Stage::new();
    let (kernel, processes) = (&stage.kernel, &stage.first.processes);
    let coordinators = stage.coordinators();
    let (ballot, read) = stage.run(coordinators.read(1)).unwrap();
    assert!(read.is_none());

    // One of three is down when the state is written, and one loses it.
    kernel.reboot(processes[1], KillKind::RebootProcess, 5.0);
    stage.run(coordinators.write(ballot, state(0))).unwrap();
    kernel.reboot(processes[2], KillKind::RebootAndDelete, 5.0);
    kernel.reboot(processes[0], KillKind::RebootProcess, 20.0);
    stage.pass(10.0);
    let forgotten = stage.run(coordinators.read(ballot + 1));
    assert!(forgotten.is_err(), "those who have forgotten were asked");
    stage.pass(30.0);
    let (_, read) = stage.run(coordinators.read(ballot + 1)).unwrap();
    assert!(read.is_some());
}

#[test]
fn those_who_know_the_old_coordinators_are_sent_to_the_new_ones() {
    let stage = Stage::new();
    let coordinators = stage.coordinators();
    let (ballot, _) = stage.run(coordinators.read(1)).unwrap();
    stage.run(coordinators.write(ballot, state(7))).unwrap();
    let moved = coordinators.move_to(ballot, state(7), &stage.second);
    stage.run(moved).unwrap();
    assert_eq!(coordinators.known().number, stage.second.number);

    // Even if one of them has lost its disk, and all have been away.
    let old = &stage.first.processes;
    stage.kernel.reboot(old[0], KillKind::RebootAndDelete, 5.0);
    stage.kernel.reboot(old[1], KillKind::RebootProcess, 5.0);
    stage.pass(10.0);
    let late = stage.coordinators();
    let (later, read) = stage.run(late.read(1)).unwrap();
    assert!(later > ballot, "ballots go on");
    assert_eq!(read.unwrap().next_tag, 7);
    assert_eq!(late.known().number, stage.second.number);
    stage.run(late.find_leader());
}

#[test]
fn a_move_needs_all_new_coordinators_and_none_of_them_counts_before() {
    let stage = Stage::new();
    let coordinators = stage.coordinators();
    let (ballot, _) = stage.run(coordinators.read(1)).unwrap();
    stage.run(coordinators.write(ballot, state(7))).unwrap();
    let away = stage.second.processes[2];
    stage.kernel.reboot(away, KillKind::RebootProcess, 20.0);
    let moved = coordinators.move_to(ballot, state(7), &stage.second);
    assert!(stage.run(moved).is_err());
    assert_eq!(coordinators.known().number, stage.first.number);
    let (_, read) = stage.run(coordinators.read(ballot + 1)).unwrap();
    assert_eq!(read.unwrap().next_tag, 7);
}

#[test]
fn whoever_reads_half_a_move_finishes_it() {
    let stage = Stage::new();
    let coordinators = stage.coordinators();
    let (ballot, _) = stage.run(coordinators.read(1)).unwrap();
    stage.run(coordinators.write(ballot, state(7))).unwrap();
    // The controller dies when one of the old coordinators has written where the state went.
    let here = Process::new(&stage.kernel, stage.writer);
    for server in stage.second.processes.iter() {
        let install = Coordinate::Install {
            quorum: stage.second.clone(),
            ballot,
            state: state(7),
        };
        let endpoint = coordinate_endpoint(&here, *server);
        stage.run(here.request(&endpoint, install)).unwrap();
    }
    let entry = Entry {
        state: state(7),
        moved_to: Some(stage.second.clone()),
    };
    stage.write_to_one(0, ballot, entry);

    let next = stage.coordinators();
    let (_, read) = stage.run(next.read(ballot + 1)).unwrap();
    assert_eq!(read.unwrap().next_tag, 7);
    assert_eq!(next.known().number, stage.second.number);
    let last = stage.coordinators();
    stage.run(last.find_leader());
    assert_eq!(
        last.known().number,
        stage.second.number,
        "the old have retired"
    );
}

#[test]
fn half_a_move_that_nobody_saw_comes_to_nothing() {
    let stage = Stage::new();
    let coordinators = stage.coordinators();
    let (ballot, _) = stage.run(coordinators.read(1)).unwrap();
    stage.run(coordinators.write(ballot, state(7))).unwrap();
    let entry = Entry {
        state: state(7),
        moved_to: Some(stage.second.clone()),
    };
    stage.write_to_one(0, ballot, entry);

    // The next controller cannot reach the only one that knows.
    let first = &stage.first.processes;
    stage.kernel.reboot(first[0], KillKind::RebootProcess, 5.0);
    let next = stage.coordinators();
    let (later, read) = stage.run(next.read(ballot + 1)).unwrap();
    assert_eq!(read.unwrap().next_tag, 7);
    stage.run(next.write(later, state(8))).unwrap();
    stage.pass(10.0);
    let (_, read) = stage.run(stage.coordinators().read(later + 1)).unwrap();
    assert_eq!(read.unwrap().next_tag, 8);
}

#[test]
fn what_was_written_before_a_move_and_arrives_after_it_is_refused() {
    let stage = Stage::new();
    let coordinators = stage.coordinators();
    let (ballot, _) = stage.run(coordinators.read(1)).unwrap();
    let entry = |moved_to| Entry {
        state: state(7),
        moved_to,
    };
    let moved = stage.write_to_one(0, ballot, entry(Some(stage.second.clone())));
    assert!(matches!(moved, Answer::Serving(true)));
    let late = stage.write_to_one(0, ballot, entry(None));
    assert!(matches!(late, Answer::Serving(false)));
}
