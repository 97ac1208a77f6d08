//! A record of two clients as lines, and values as what they look like.

use super::keys::value_text;
use super::*;
use shaketable_record::{
    Answer, Bytes, Call, Commit, Committed, Conflict, Fate, Header, Mutation, Operation, Phase,
    Range, RangeCall, Retry, Selector, Verdict,
};

fn key(text: &str) -> Bytes {
    Bytes::whole(&[b"\x02", text.as_bytes(), b"\x00"].concat())
}

fn range(begin: Bytes) -> Range {
    let end = Bytes::whole(&[begin.kept(), &[0]].concat());
    Range { begin, end }
}

fn commit(operation: u32, fate: Fate) -> Commit {
    Commit {
        operation,
        reads: Vec::new(),
        writes: Vec::new(),
        mutations: Vec::new(),
        fate,
        conflict: None,
    }
}

/// Two clients add to a counter: one in doubt, one in conflict.
fn record() -> Record {
    let attempt = |client, transaction, number, end| Attempt {
        client: Some(client),
        phase: Some(0),
        transaction,
        number,
        retries: None,
        begun: 1.0,
        ended: None,
        read_version: Some(100),
        commit: None,
        end,
    };
    let mut record = Record {
        header: Header {
            directories: vec![(Bytes::whole(b"\x15\x07"), vec!["app".into(), "jobs".into()])],
            verdict: Verdict {
                kind: Some("check failed".into()),
                client: Some(1),
                time: Some(9.0),
                ..Verdict::default()
            },
            ..Header::default()
        },
        places: vec![Place {
            file: "a/folder/that/is/long/src/queue.rs".into(),
            line: 88,
            function: "queue::claim".into(),
        }],
        phases: vec![Phase {
            client: 0,
            test: "t".into(),
            workload: "Counter".into(),
            phase: "start".into(),
            begun: 0.0,
            ended: None,
            error: None,
        }],
        attempts: vec![
            attempt(0, 0, 1, End::Retried(1021)),
            attempt(0, 0, 2, End::Committed),
            attempt(1, 1, 1, End::Failed(1020)),
        ],
        committed: vec![Committed {
            version: 200,
            batch_index: 0,
            attempt: Some(0),
            mutations: vec![Mutation::Set {
                key: key("counter"),
                value: Bytes::whole(b"1"),
            }],
        }],
        ..Record::default()
    };
    let mut ask = |attempt, asked, took: Option<f64>, call, answer| {
        record.operations.push(Operation {
            attempt,
            asked,
            answered: took.map(|took| asked + took),
            place: (asked > 1.5).then_some(0),
            call,
            answer,
        });
    };
    let counter = || key("counter");
    let one = || Bytes::whole(&1_i64.to_le_bytes());
    let job = Bytes::whole(b"\x15\x07\x15\x01");
    let get = |key: Bytes, snapshot| Call::Get { key, snapshot };
    ask(
        0,
        1.0,
        Some(0.0015),
        get(counter(), false),
        Answer::Value(None),
    );
    let set = Call::Set {
        key: counter(),
        value: one(),
    };
    ask(0, 1.2, None, set, Answer::Nothing);
    ask(0, 1.25, Some(2.5), Call::Commit, Answer::Error(1021));
    ask(0, 3.75, Some(0.01), Call::OnError(1021), Answer::Nothing);
    ask(1, 3.76, Some(0.000_05), get(job, true), Answer::Error(1007));
    let call = RangeCall {
        begin: Selector {
            key: Bytes::whole(b"\x02jobs\x00\x00"),
            or_equal: false,
            offset: 1,
        },
        end: Selector {
            key: Bytes::whole(b"\x02jobs\x00\xff"),
            or_equal: false,
            offset: 1,
        },
        limit: 10,
        target_bytes: 0,
        mode: 0,
        iteration: 1,
        snapshot: false,
        reverse: true,
    };
    let rows = Answer::Rows {
        rows: Vec::new(),
        count: 10,
        more: true,
    };
    ask(2, 4.0, Some(0.2), Call::GetRange(call), rows);
    let operand = one();
    let name = "add".to_owned();
    let atomic = Call::Atomic {
        key: counter(),
        operand,
        name,
    };
    ask(2, 4.3, None, atomic, Answer::Nothing);
    ask(2, 4.3, Some(0.1), Call::Commit, Answer::Error(1020));
    ask(
        2,
        4.5,
        None,
        Call::Watch { key: counter() },
        Answer::Pending,
    );
    record.attempts[0].commit = Some(commit(2, Fate::Landed(0)));
    record.attempts[1].retries = Some(Retry {
        attempt: 0,
        error: 1021,
    });
    record.attempts[2].commit = Some(Commit {
        conflict: Some(Conflict {
            range: range(key("counter")),
            winner: Some(0),
        }),
        ..commit(7, Fate::Lost)
    });
    record
}

#[test]
fn every_operation_is_a_line() {
    let record = record();
    let all: Vec<u32> = (0..record.operations.len() as u32).collect();
    let lines = Story::of(&record).lines(&all);
    insta::assert_snapshot!(lines.join("\n"));
    assert!(lines.iter().all(|line| line.chars().count() <= COLUMNS));
}

#[test]
fn the_last_operations_of_the_client_that_failed_are_told() {
    let lines = Story::of(&record()).of_failure(2);
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn values_are_shown_as_what_they_look_like() {
    let text = |bytes: &[u8]| value_text(&Bytes::whole(bytes));
    assert_eq!(text(b"12345678"), "\"12345678\"");
    assert_eq!(text(&7_i64.to_le_bytes()), "7");
    assert_eq!(text(&(-7_i32).to_le_bytes()), "-7");
    assert_eq!(text(b"\x02a\x00"), "(\"a\",)");
    assert_eq!(text(b""), "\"\"");
    assert_eq!(value_text(&Bytes::shortened(b"secret", 0)), "6 bytes");
    assert_eq!(
        value_text(&Bytes::shortened(b"a long one", 6)),
        "\"a long… (10 bytes)"
    );
}
