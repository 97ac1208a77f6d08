//! `explain`, `lint` and what they refuse, as a user sees them.
//!
//! The run that is explained is written by hand: one client adds 1 to a counter, is told 1021, and
//! adds again. As a record and as the trace of a server it must have the same explanation.

use crate::bench::{Bench, counting, text};
use flate2::Compression;
use flate2::write::GzEncoder;
use insta::assert_snapshot;
use shaketable_explain::seen;
use shaketable_record::seen::{
    AttemptName, EVENT, Line, NUMBER, PART, Seen, TEXT, WORKLOAD, pieces, to_text,
};
use shaketable_record::{Answer, Bytes, Call, End, Header, file};
use std::fs::{self, File};
use std::io::Write;
use std::process::Output;

const COUNTER: &[u8] = b"\x02counter\x00";

fn number(number: u64) -> Bytes {
    Bytes::whole(&number.to_le_bytes())
}

/// What the client has seen.
fn lines() -> Vec<Line> {
    let of = |transaction, number| AttemptName {
        transaction,
        number,
    };
    let mut sequence = 0;
    let mut call = |of, asked, answered, call, answer| {
        sequence += 1;
        Seen::Operation {
            of,
            sequence,
            asked,
            answered,
            stack: None,
            call,
            answer,
        }
    };
    let add = || Call::Atomic {
        key: Bytes::whole(COUNTER),
        operand: number(1),
        name: "add".to_owned(),
    };
    let get = Call::Get {
        key: Bytes::whole(COUNTER),
        snapshot: false,
    };
    let attempt = |of, phase: &str, begun, ended, retries, end, committed| Seen::Attempt {
        of,
        phase: phase.to_owned(),
        begun,
        ended,
        retries,
        end,
        committed,
    };
    let begun = |phase: &str, time| Seen::Begun {
        phase: phase.to_owned(),
        time,
    };
    let ended = |phase: &str, time, error: Option<&str>| Seen::Ended {
        phase: phase.to_owned(),
        time,
        passed: error.is_none(),
        error: error.map(str::to_owned),
    };
    let seen = vec![
        begun("start", 1.0),
        call(of(0, 1), 1.0, None, add(), Answer::Nothing),
        call(of(0, 1), 1.0, Some(2.5), Call::Commit, Answer::Error(1021)),
        call(
            of(0, 1),
            2.5,
            Some(2.6),
            Call::OnError(1021),
            Answer::Nothing,
        ),
        attempt(of(0, 1), "start", 1.0, 2.6, None, End::Retried(1021), None),
        call(of(0, 2), 2.6, None, add(), Answer::Nothing),
        call(of(0, 2), 2.6, Some(2.7), Call::Commit, Answer::Nothing),
        attempt(
            of(0, 2),
            "start",
            2.6,
            2.7,
            Some(1021),
            End::Committed,
            Some(3_000_000),
        ),
        ended("start", 2.7, None),
        begun("check", 4.0),
        call(
            of(1, 1),
            4.0,
            Some(4.1),
            get,
            Answer::Value(Some(number(2))),
        ),
        Seen::ReadVersion {
            of: of(1, 1),
            version: 4_000_000,
        },
        attempt(of(1, 1), "check", 4.0, 4.2, None, End::Dropped, None),
        ended(
            "check",
            4.2,
            Some("1 increment was made, the counter says 2"),
        ),
    ];
    seen.into_iter()
        .map(|seen| Line {
            client: 0,
            workload: "Counter".to_owned(),
            seen,
        })
        .collect()
}

/// A folder with the run in it: `run.jsonl.gz`, and as traces `json/` and `xml/`.
fn bench(name: &str) -> Bench {
    let bench = Bench::misbehaving(name, "false", "start");
    let header = Header {
        program: "shaketable".to_owned(),
        file: "counter.toml".to_owned(),
        seed: 7,
        ..Header::default()
    };
    let (record, _) = seen::record(header, lines(), &[], |_| None);
    let to = File::create(bench.folder.join("run.jsonl.gz")).unwrap();
    file::write(&record, to).unwrap();
    let (mut json, mut xml) = (
        String::new(),
        "<?xml version=\"1.0\"?>\n<Trace>\n".to_owned(),
    );
    json += "{ \"Severity\": \"10\", \"Type\": \"ProgramStart\", \"RandomSeed\": \"7\" }\n";
    xml += "<Event Severity=\"10\" Type=\"ProgramStart\" RandomSeed=\"7\" />\n";
    for (line, seen) in lines().iter().enumerate() {
        let text = to_text(seen);
        let events = pieces(&text);
        for (index, event) in (1..).zip(&events) {
            let texts = event.iter().enumerate();
            let texts: Vec<(String, &str)> = texts
                .map(|(number, text)| (format!("{TEXT}{number}"), *text))
                .collect();
            let head = [
                ("Severity", "10".to_owned()),
                ("Time", "1.000000".to_owned()),
                ("Type", EVENT.to_owned()),
                (WORKLOAD, "Counter".to_owned()),
                (NUMBER, line.to_string()),
                (PART, format!("{index}/{}", events.len())),
            ];
            let head = head.iter().map(|(name, value)| (*name, value.as_str()));
            let all = head.chain(texts.iter().map(|(name, text)| (name.as_str(), *text)));
            let all: Vec<(&str, &str)> = all.collect();
            let fields: Vec<String> = all
                .iter()
                .map(|(k, v)| format!("\"{k}\": \"{v}\""))
                .collect();
            json += &format!("{{ {} }}\n", fields.join(", "));
            let fields: Vec<String> = all.iter().map(|(k, v)| format!("{k}=\"{v}\"")).collect();
            xml += &format!("<Event {} />\n", fields.join(" "));
        }
    }
    for (form, text) in [("json", json), ("xml", xml)] {
        let folder = bench.folder.join(form);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join(format!("trace.0.0.0.0.0.{form}")), text).unwrap();
    }
    bench
}

fn shown(output: &Output) -> String {
    format!(
        "exit status {}\n{}{}",
        output.status.code().unwrap(),
        text(&output.stdout),
        text(&output.stderr)
    )
}

#[test]
fn a_record_is_explained() {
    let bench = bench("explained");
    assert_snapshot!(shown(&bench.run(&["explain", "run.jsonl.gz"])));
}

#[test]
fn a_trace_of_a_server_has_the_same_explanation_in_both_forms() {
    let bench = bench("explained-trace");
    let json = shown(&bench.run(&["explain", "--trace", "json"]));
    let xml = shown(&bench.run(&["explain", "--trace", "xml/trace.0.0.0.0.0.xml"]));
    let title = |text: &str| text.replace("xml/trace.0.0.0.0.0.xml", "json");
    assert_eq!(json, title(&xml));
    assert_snapshot!(json);
}

#[test]
fn an_explanation_for_programs_has_the_same_findings() {
    let bench = bench("explained-json");
    let output = bench.run(&["explain", "run.jsonl.gz", "--message-format", "json"]);
    assert_eq!(output.status.code(), Some(100));
    let explained: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(explained["type"], "explanation");
    assert_eq!(
        explained["findings"][0]["name"],
        "retry-after-unknown-result"
    );
    assert_eq!(explained["header"]["verdict"]["phase"], "check");
}

#[test]
fn values_can_be_kept_out_of_a_log() {
    let bench = bench("log-values");
    let log = |values: &str| shown(&bench.run(&["log", "run.jsonl.gz", "--values", values]));
    let (full, none) = (log("full"), log("none"));
    assert_snapshot!(none);
    assert_ne!(full, none);
}

#[test]
fn values_can_be_kept_out_of_an_explanation() {
    let bench = bench("explain-values");
    assert_snapshot!(shown(&bench.run(&[
        "explain",
        "run.jsonl.gz",
        "--values",
        "none"
    ])));
}

#[test]
fn what_cannot_be_explained_is_refused_with_a_reason() {
    let bench = bench("refused");
    let whole = fs::read(bench.folder.join("run.jsonl.gz")).unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(bench.folder.join(name), bytes).unwrap();
    write("cut.jsonl.gz", &whole[..whole.len() / 2]);
    write("other.gz", b"something else");
    let mut newer = GzEncoder::new(Vec::new(), Compression::fast());
    newer.write_all(b"{\"shaketable_record\":9}\n").unwrap();
    write("newer.jsonl.gz", &newer.finish().unwrap());
    write(
        "empty.json",
        b"{ \"Severity\": \"10\", \"Type\": \"Nothing\" }\n",
    );
    let mut told = String::new();
    for arguments in [
        "explain cut.jsonl.gz",
        "explain other.gz",
        "explain newer.jsonl.gz",
        "explain absent",
        "explain .",
        "explain bench.toml",
        "explain --trace absent.json",
        "explain --trace empty.json",
        "explain --trace json run.jsonl.gz --seed 1",
        "explain",
        "lint absent.toml",
        "log run.jsonl.gz --values some",
        "run bench.toml --lint --trace",
    ] {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let output = bench.run(&arguments);
        assert_ne!(output.status.code(), Some(0), "{arguments:?}");
        told += &format!("$ shaketable {}\n{}\n", arguments.join(" "), shown(&output));
    }
    assert_snapshot!(told);
}

#[test]
fn a_sweep_that_passed_is_searched_for_hazards() {
    let bench = counting("lint", "");
    let lint = bench.run(&[
        "lint",
        "bench.toml",
        "--seed",
        "3",
        "--seeds",
        "2",
        "--no-build",
    ]);
    assert_eq!(shown(&lint), "exit status 0\n2 runs: no hazard\n");
    let run = "run bench.toml --seed 3 --seeds 2 --no-build --lint";
    let arguments: Vec<&str> = run.split(' ').collect();
    let human = bench.run(&arguments);
    assert_eq!(human.status.code(), Some(0), "{}", shown(&human));
    let human = text(&human.stdout);
    assert!(human.ends_with("--lint: 2 runs: no hazard\n"), "{human}");
    let json = bench.run(&[&arguments[..], &["--message-format", "json"]].concat());
    let last = text(&json.stdout)
        .lines()
        .last()
        .unwrap_or_default()
        .to_owned();
    assert!(last.contains("\"type\":\"summary\""), "{last}");
}
