//! What lasted, from events that are points in time.

use super::*;
use shaketable_record::Header;

fn event(time: f64, name: &str, machine: &str, details: &[(&str, &str)]) -> Event {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    Event {
        time,
        name: name.into(),
        machine: machine.into(),
        fault: false,
        details: details.iter().map(own).collect(),
    }
}

fn cluster(events: Vec<Event>) -> Cluster {
    Cluster::of(&Record {
        header: Header {
            clients: 2,
            seconds: 20.0,
            ..Header::default()
        },
        events,
        ..Record::default()
    })
}

#[test]
fn a_process_is_down_from_its_kill_to_its_next_boot() {
    let seen = cluster(vec![
        event(
            0.0,
            "SimulatedMachineProcess",
            "2.0.1.1:1",
            &[("Address", "2.0.1.1:1")],
        ),
        event(
            0.0,
            "SimulatedMachineProcess",
            "2.0.1.1:2",
            &[("Address", "2.0.1.1:2")],
        ),
        event(
            3.0,
            "RebootingProcess",
            "2.0.1.1:2",
            &[("Address", "2.0.1.1:2")],
        ),
        event(
            5.0,
            "SimulatedMachineProcess",
            "2.0.1.1:2",
            &[("Address", "2.0.1.1:2")],
        ),
        event(
            9.0,
            "RebootingProcess",
            "2.0.1.1:1",
            &[("Address", "2.0.1.1:1")],
        ),
    ]);
    assert_eq!(seen.processes, ["2.0.1.1:1", "2.0.1.1:2"]);
    let expected = [
        (Lane::Process(1), 3.0, 5.0, 2),
        (Lane::Process(0), 9.0, 20.0, 4),
    ];
    assert_eq!(seen.down, expected.map(Span::from));
}

#[test]
fn a_recovery_lasts_until_commits_are_accepted() {
    let seen = cluster(vec![
        event(
            1.0,
            "MasterRecoveryState",
            "2.0.1.1:1",
            &[("StatusCode", "0")],
        ),
        event(
            2.0,
            "MasterRecoveryState",
            "2.0.1.2:1",
            &[("StatusCode", "0")],
        ),
        event(
            4.0,
            "MasterRecoveryState",
            "2.0.1.2:1",
            &[("StatusCode", "11")],
        ),
        event(
            5.0,
            "MasterRecoveryState",
            "2.0.1.2:1",
            &[("StatusCode", "14")],
        ),
    ]);
    assert_eq!(seen.recoveries, [Span::from((Lane::Cluster, 1.0, 4.0, 0))]);
}

#[test]
fn a_clog_concerns_both_sides_and_every_process_of_an_address() {
    let seen = cluster(vec![
        event(0.0, "SimulatedMachineProcess", "2.0.1.1:1", &[]),
        event(0.0, "SimulatedMachineProcess", "2.0.1.1:2", &[]),
        event(
            2.0,
            "CloggingPair",
            "0.0.0.0:0",
            &[("From", "3.4.3.2"), ("To", "2.0.1.1"), ("Seconds", "1.5")],
        ),
        event(
            19.0,
            "ClogInterface",
            "0.0.0.0:0",
            &[("IP", "3.4.3.1"), ("Delay", "9")],
        ),
    ]);
    let expected = [
        (Lane::Client(1), 2.0, 3.5, 2),
        (Lane::Process(0), 2.0, 3.5, 2),
        (Lane::Process(1), 2.0, 3.5, 2),
        (Lane::Client(0), 19.0, 20.0, 3),
    ];
    assert_eq!(seen.clogged, expected.map(Span::from));
}

#[test]
fn a_process_has_its_roles_from_one_change_to_the_next() {
    let role = |time, name, transition| {
        let details = [("As", name), ("Transition", transition)];
        event(time, "Role", "2.0.1.1:1", &details)
    };
    let seen = cluster(vec![
        role(1.0, "tlog", "Begin"),
        role(1.0, "commitproxy", "Begin"),
        role(3.0, "tlog", "End"),
        role(3.0, "commitproxy", "End"),
        role(5.0, "storage", "Begin"),
    ]);
    let spans: Vec<_> = seen
        .roles
        .iter()
        .map(|span| (span.begun, span.ended, span.roles.as_str()))
        .collect();
    let expected = [(1.0, 3.0, "commit proxy, log"), (5.0, 20.0, "storage")];
    assert_eq!(spans, expected);
}

#[test]
fn a_partition_lasts_until_it_heals_whichever_side_is_named_first() {
    let seen = cluster(vec![
        event(0.0, "SimulatedMachineProcess", "2.0.1.1:1", &[]),
        event(
            1.0,
            "Partitioned",
            "0.0.0.0:0",
            &[("A", "2.0.1.1"), ("B", "3.4.3.1")],
        ),
        event(
            2.0,
            "PartitionHealed",
            "0.0.0.0:0",
            &[("A", "3.4.3.1"), ("B", "2.0.1.1")],
        ),
    ]);
    assert_eq!(seen.clogged.len(), 2);
    assert_eq!((seen.clogged[0].begun, seen.clogged[0].ended), (1.0, 2.0));
}

#[test]
fn an_event_of_an_unknown_name_is_a_point_on_the_lane_of_its_machine() {
    let seen = cluster(vec![
        event(1.0, "Incremented", "3.4.3.2:1", &[("Count", "5")]),
        event(1.0, "TestStarting", "0.0.0.0:0", &[]),
        event(
            1.0,
            "Odd",
            "not an address",
            &[("From", "nowhere"), ("Seconds", "NaN")],
        ),
    ]);
    let lanes = [[Lane::Client(1)], [Lane::Cluster], [Lane::Cluster]];
    assert_eq!(seen.lanes, lanes);
}
