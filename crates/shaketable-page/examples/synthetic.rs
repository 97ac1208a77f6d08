//! Writes records that no run has made, and their pages: for looking at the page, for its tests in
//! a browser, and for measuring it.
//!
//! ```text
//! cargo run -p shaketable-page --features perfetto --example synthetic -- KIND FOLDER
//! ```
//!
//! `story` is a small failure with a finding, `hostile` has keys and messages that try to break
//! out, `empty` has nothing, `large` has 50,000 transactions. Each becomes a record, a page and a
//! Perfetto trace in the folder.

use shaketable_explain::{Evidence, Explanation, Finding, Proof, Story};
use shaketable_record::{
    Answer, Attempt, Bytes, Call, Commit, Committed, Conflict, End, Event, Fate, Header, LeftOut,
    Mutation, Operation, Phase, Place, Range, Record, Retry, Verdict, file,
};
use std::fs;
use std::path::Path;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kind, folder] = arguments.as_slice() else {
        eprintln!("usage: synthetic story|hostile|empty|large FOLDER");
        std::process::exit(2);
    };
    let (record, explanation) = match kind.as_str() {
        "story" => story(),
        "hostile" => hostile(),
        "empty" => (Record::default(), Explanation::default()),
        "large" => (
            Run::new(1, 24, 120.0).transactions(50_000),
            Explanation::default(),
        ),
        other => {
            eprintln!("there is no `{other}`: story, hostile, empty or large");
            std::process::exit(2);
        }
    };
    let folder = Path::new(folder);
    fs::create_dir_all(folder).expect("the folder can be made");
    let write = |name: &str, content: &[u8]| {
        fs::write(folder.join(name), content).expect("the file can be written");
    };
    let mut compressed = Vec::new();
    file::write(&record, &mut compressed).expect("memory can be written");
    write("record.jsonl.gz", &compressed);
    write(
        "timeline.html",
        shaketable_page::html(&record, &explanation).as_bytes(),
    );
    write(
        "trace.perfetto",
        &shaketable_page::perfetto(&record, &explanation),
    );
}

/// Numbers that look random and are the same every time.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 29
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    /// From 0 up to 1.
    fn part(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A run of clients that increment counters, in a cluster that suffers.
struct Run {
    record: Record,
    chance: Chance,
    clients: u32,
    seconds: f64,
    version: i64,
}

fn tuple(parts: &[&str]) -> Bytes {
    let mut key = Vec::new();
    for part in parts {
        key.push(2);
        for byte in part.bytes() {
            key.push(byte);
            if byte == 0 {
                key.push(0xff);
            }
        }
        key.push(0);
    }
    Bytes::whole(&key)
}

fn counter(value: i64) -> Bytes {
    Bytes::whole(&value.to_le_bytes())
}

fn single(key: &Bytes) -> Range {
    let end = [key.kept(), &[0]].concat();
    Range {
        begin: key.clone(),
        end: Bytes::whole(&end),
    }
}

impl Run {
    fn new(seed: u64, clients: u32, seconds: f64) -> Run {
        let record = Record {
            header: Header {
                program: "shaketable 0.1.0".into(),
                host: "embedded".into(),
                file: "tests/counters.toml".into(),
                seed,
                clients,
                cluster: "2 datacenters, 6 machines, 8 processes, 3 storage replicas".into(),
                seconds,
                reproduce: Some(format!(
                    "shaketable replay tests/counters.toml --seed {seed}"
                )),
                verdict: Verdict {
                    passed: true,
                    ..Verdict::default()
                },
                ..Header::default()
            },
            ..Record::default()
        };
        let mut run = Run {
            record,
            chance: Chance(seed),
            clients,
            seconds,
            version: 1_000_000,
        };
        run.places();
        run.phases();
        run.events();
        run
    }

    fn places(&mut self) {
        for (line, function) in [(41, "read"), (44, "write"), (47, "commit"), (88, "check")] {
            self.record.places.push(Place {
                file: "src/counters.rs".into(),
                line,
                function: format!("counters::{function}"),
            });
        }
    }

    fn phases(&mut self) {
        let stretches = [
            ("setup", 0.01, 0.04),
            ("start", 0.04, 0.92),
            ("check", 0.94, 0.98),
        ];
        for (phase, begun, ended) in stretches {
            for client in 0..self.clients {
                self.record.phases.push(Phase {
                    client,
                    test: "counters".into(),
                    workload: "Counters".into(),
                    phase: phase.into(),
                    begun: begun * self.seconds,
                    ended: Some(ended * self.seconds + self.chance.part() * 0.002),
                    error: None,
                });
            }
        }
    }

    fn event(
        &mut self,
        time: f64,
        name: &str,
        machine: &str,
        fault: bool,
        details: &[(&str, &str)],
    ) {
        let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        self.record.events.push(Event {
            time,
            name: name.into(),
            machine: machine.into(),
            fault,
            details: details.iter().map(own).collect(),
        });
    }

    fn events(&mut self) {
        let processes: Vec<String> = (1..=8).map(|n| format!("2.0.1.{n}:1")).collect();
        for address in &processes {
            let details = [("Address", address.as_str()), ("BootCount", "1")];
            self.event(0.0, "SimulatedMachineProcess", address, false, &details);
        }
        let roles = [
            "clustercontroller",
            "sequencer",
            "tlog",
            "commitproxy",
            "resolver",
        ];
        for (address, role) in processes.iter().zip(roles.iter().chain(&["storage"; 3])) {
            let details = [("As", *role), ("Transition", "Begin")];
            self.event(0.006 * self.seconds, "Role", address, false, &details);
        }
        let recovering = [("StatusCode", "0"), ("Status", "reading_coordinated_state")];
        let recovered = [("StatusCode", "11"), ("Status", "accepting_commits")];
        let s = self.seconds;
        for (begun, ended, at) in [(0.001, 0.006, 0), (0.35, 0.39, 2), (0.58, 0.61, 4)] {
            self.event(
                begun * s,
                "MasterRecoveryState",
                &processes[at],
                true,
                &recovering,
            );
            self.event(
                ended * s,
                "MasterRecoveryState",
                &processes[at],
                false,
                &recovered,
            );
        }
        for (killed, booted, at) in [
            (0.348, 0.42, 2),
            (0.575, 0.65, 4),
            (0.2, 0.24, 6),
            (0.7, 0.71, 7),
        ] {
            let address = processes[at].clone();
            let kill = [("KillType", "Reboot"), ("Address", address.as_str())];
            self.event(killed * s, "RebootingProcess", &address, true, &kill);
            let boot = [("Address", address.as_str()), ("BootCount", "2")];
            self.event(
                booted * s,
                "SimulatedMachineProcess",
                &address,
                false,
                &boot,
            );
        }
        for _ in 0..40 {
            let time = (0.1 + self.chance.part() * 0.6) * s;
            let from = format!("2.0.1.{}", 1 + self.chance.below(8));
            let to = match self.chance.below(3) {
                0 => format!("3.4.3.{}", 1 + self.chance.below(u64::from(self.clients))),
                _ => format!("2.0.1.{}", 1 + self.chance.below(8)),
            };
            let lasts = format!("{:.4}", self.chance.part() * 0.05 * s);
            let details = [
                ("From", from.as_str()),
                ("To", to.as_str()),
                ("Seconds", lasts.as_str()),
            ];
            self.event(time, "CloggingPair", "0.0.0.0:0", true, &details);
        }
        self.record.events.sort_by(|a, b| a.time.total_cmp(&b.time));
    }

    /// Transactions of every client, one after the other, until there are as many as wanted.
    fn transactions(mut self, wanted: u32) -> Record {
        let mut free: Vec<f64> = (0..self.clients).map(|_| 0.04 * self.seconds).collect();
        let pace = self.seconds * 0.88 / f64::from(wanted / self.clients);
        for transaction in 0..wanted {
            let client = (0..self.clients)
                .min_by(|a, b| free[*a as usize].total_cmp(&free[*b as usize]))
                .expect("there are clients");
            let begun = free[client as usize] + self.chance.part() * pace * 0.5;
            let key = tuple(&["counters", &format!("{}", self.chance.below(40))]);
            let luck = self.chance.below(100);
            let length = pace * (0.15 + 0.25 * self.chance.part());
            let ends = match luck {
                0..=71 => vec![Ending::Committed],
                72..=80 => vec![Ending::ReadOnly],
                81..=93 => vec![Ending::Conflict, Ending::Committed],
                94..=95 => vec![Ending::UnknownLanded, Ending::Committed],
                96 => vec![Ending::UnknownLost, Ending::Committed],
                97 => vec![Ending::Conflict, Ending::Conflict, Ending::Committed],
                98 => vec![Ending::TooOld, Ending::Committed],
                _ => vec![Ending::Dropped],
            };
            let mut at = begun;
            let mut before = None;
            for (number, ending) in (1..).zip(ends) {
                let id = self.attempt(
                    client,
                    transaction,
                    number,
                    before,
                    (at, length),
                    &key,
                    ending,
                );
                at += length + pace * 0.05;
                before = Some(id);
            }
            free[client as usize] = at;
        }
        in_order(self.record)
    }

    /// One attempt: a read, a write and a commit. Returns its place in the record.
    #[allow(clippy::too_many_arguments)]
    fn attempt(
        &mut self,
        client: u32,
        transaction: u32,
        number: u32,
        before: Option<u32>,
        (begun, length): (f64, f64),
        key: &Bytes,
        ending: Ending,
    ) -> u32 {
        let id = self.record.attempts.len() as u32;
        let count = self.chance.below(200) as i64;
        let code = ending.code();
        let retries = before.map(|attempt| {
            let error = match self.record.attempts[attempt as usize].end {
                End::Retried(error) => error,
                _ => 0,
            };
            Retry { attempt, error }
        });
        let mut operation = |asked: f64, took: f64, place: u32, call: Call, answer: Answer| {
            self.record.operations.push(Operation {
                attempt: id,
                asked: begun + asked * length,
                answered: Some(begun + (asked + took) * length),
                place: Some(place),
                call,
                answer,
            });
        };
        let get = Call::Get {
            key: key.clone(),
            snapshot: false,
        };
        let value = Answer::Value(Some(counter(count)));
        operation(0.02, 0.3, 0, get, value);
        let writes = ending != Ending::ReadOnly;
        let change = Mutation::Set {
            key: key.clone(),
            value: counter(count + 1),
        };
        if writes {
            let set = Call::Set {
                key: key.clone(),
                value: counter(count + 1),
            };
            operation(0.36, 0.0, 1, set, Answer::Nothing);
        }
        if ending != Ending::Dropped {
            let answer = code.map_or(Answer::Nothing, Answer::Error);
            operation(0.45, 0.55, 2, Call::Commit, answer);
        }
        let asked = self.record.operations.len() as u32 - 1;
        let fate = match ending {
            Ending::ReadOnly => Fate::ReadOnly,
            Ending::Committed | Ending::UnknownLanded => {
                self.version += 1 + self.chance.below(40_000) as i64;
                self.record.committed.push(Committed {
                    version: self.version,
                    batch_index: 0,
                    attempt: Some(id),
                    mutations: vec![change.clone()],
                });
                Fate::Landed(self.record.committed.len() as u32 - 1)
            }
            _ => Fate::Lost,
        };
        let winner = (ending == Ending::Conflict)
            .then(|| {
                self.record
                    .committed
                    .len()
                    .checked_sub(1 + self.chance.below(4) as usize)
            })
            .flatten();
        self.record.attempts.push(Attempt {
            client: Some(client),
            // Phases are listed one after the other, for every client each.
            phase: Some(self.clients + client),
            transaction,
            number,
            retries,
            begun,
            ended: Some(begun + length),
            read_version: Some(self.version),
            commit: (ending != Ending::Dropped).then(|| Commit {
                operation: asked,
                reads: vec![single(key)],
                writes: if writes {
                    vec![single(key)]
                } else {
                    Vec::new()
                },
                mutations: if writes { vec![change] } else { Vec::new() },
                fate,
                conflict: (ending == Ending::Conflict).then(|| Conflict {
                    range: single(key),
                    winner: winner.map(|id| id as u32),
                }),
            }),
            end: match (ending, code) {
                (Ending::Dropped, _) => End::Dropped,
                (_, Some(code)) => End::Retried(code),
                (_, None) => End::Committed,
            },
        });
        id
    }
}

/// The record with its operations in the order of being asked, as the format wants it.
fn in_order(mut record: Record) -> Record {
    let mut order: Vec<u32> = (0..record.operations.len() as u32).collect();
    let asked = |id: &u32| record.operations[*id as usize].asked;
    order.sort_by(|a, b| asked(a).total_cmp(&asked(b)));
    let mut places = vec![0; order.len()];
    for (new, old) in (0_u32..).zip(&order) {
        places[*old as usize] = new;
    }
    for attempt in &mut record.attempts {
        if let Some(commit) = &mut attempt.commit {
            commit.operation = places[commit.operation as usize];
        }
    }
    let sorted = order
        .iter()
        .map(|id| record.operations[*id as usize].clone());
    record.operations = sorted.collect();
    record
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    Committed,
    ReadOnly,
    Conflict,
    UnknownLanded,
    UnknownLost,
    TooOld,
    Dropped,
}

impl Ending {
    fn code(self) -> Option<i32> {
        match self {
            Ending::Conflict => Some(1020),
            Ending::UnknownLanded | Ending::UnknownLost => Some(1021),
            Ending::TooOld => Some(1007),
            _ => None,
        }
    }
}

/// A failure as a person meets it: a counter that was incremented twice.
fn story() -> (Record, Explanation) {
    let mut record = Run::new(7, 4, 30.0).transactions(160);
    record.header.verdict = Verdict {
        passed: false,
        kind: Some("check failed".into()),
        message: Some("80 increments were made, the counter says 83".into()),
        client: Some(2),
        workload: Some("Counters".into()),
        phase: Some("check".into()),
        time: Some(29.2),
    };
    let doubtful = (0..).zip(&record.attempts).find(|(_, attempt)| {
        attempt.begun > 9.0
            && matches!(attempt.end, End::Retried(1021))
            && matches!(&attempt.commit, Some(commit) if matches!(commit.fate, Fate::Landed(_)))
    });
    let (first, attempt) = doubtful.expect("some commit is doubtful and landed");
    let second = first + 1;
    let commit_of = |id: u32| {
        let attempt = &record.attempts[id as usize];
        attempt.commit.as_ref().expect("it has one").operation
    };
    let read_of = |id: u32| {
        let mut operations = (0..).zip(&record.operations);
        let found = operations.find(|(_, operation)| operation.attempt == id);
        found.expect("it read").0
    };
    let proof = |at, note: &str| Proof {
        at,
        note: note.into(),
    };
    let client = attempt.client.expect("a client made it");
    let finding = Finding {
        name: "retry-after-unknown-result",
        sentence: format!(
            "Client {client} incremented a counter twice: its commit at src/counters.rs:47 was \
             answered with 1021 although it had landed, and the retry added one more."
        ),
        proof: vec![
            proof(
                Evidence::Operation(commit_of(first)),
                "this commit is told 1021, and has landed",
            ),
            proof(
                Evidence::Operation(read_of(second)),
                "the retry reads a counter that has its own increment",
            ),
            proof(
                Evidence::Operation(commit_of(second)),
                "and commits the same increment again",
            ),
        ],
        advice: "Write an id of the increment in the same transaction, and look for it before \
                 trying again."
            .into(),
        times: 3,
    };
    let last = record.committed.len() as u32 - 1;
    let early = Finding {
        name: "snapshot-read-guards-write",
        sentence: "A limit is checked with a snapshot read, which is no reason for a conflict."
            .into(),
        proof: vec![
            proof(Evidence::Attempt(second + 4), "the limit is read"),
            proof(Evidence::Committed(last), "and is passed by another client"),
        ],
        advice: "Read the limit without snapshot, or add a read conflict key.".into(),
        times: 1,
    };
    let key = tuple(&["counters", "7"]);
    let story = Story {
        text: r#"("counters", "7")"#.into(),
        chapters: vec![
            proof(Evidence::Committed(0), "first written, as 1"),
            proof(
                Evidence::Operation(commit_of(first)),
                "82, by a commit whose result was unknown",
            ),
            proof(Evidence::Operation(commit_of(second)), "83, by the retry"),
        ],
        earlier: 12,
        later: 2,
        key,
    };
    let explanation = Explanation {
        findings: vec![finding, early],
        stories: vec![story],
    };
    (record, explanation)
}

/// Keys, values and messages that try to break out of the page, hide, or turn text round.
fn hostile() -> (Record, Explanation) {
    let mut record = Run::new(3, 2, 10.0).transactions(12);
    let nasty = [
        "</script><script>document.title='broken out'</script>",
        "\"'><img src=x onerror=\"document.title='broken out'\">",
        "<!--<script>{{data}}{{script}}]]>",
        "\u{202e}desrever\u{202c} \u{200f}שלום عالم",
        "nul\0tab\tnewline\nbell\u{7}",
        "&lt;b&gt; &amp; \u{2028}\u{2029}",
        "a very long name without any place to break it, as a key may well be"
            .repeat(4)
            .leak(),
        "\\u003c \\x00 ${document} `",
    ];
    for (operation, text) in record.operations.iter_mut().zip(nasty.iter().cycle()) {
        match &mut operation.call {
            Call::Get { key, .. } => *key = tuple(&[text]),
            Call::Set { key, value } => {
                *key = Bytes::whole(text.as_bytes());
                *value = Bytes::whole(text.as_bytes());
            }
            _ => {}
        }
    }
    for (place, text) in record.places.iter_mut().zip(nasty) {
        place.file = text.into();
        place.function = text.into();
    }
    for (phase, text) in record.phases.iter_mut().zip(nasty.iter().cycle()) {
        phase.workload = (*text).into();
    }
    for (event, text) in record.events.iter_mut().zip(nasty.iter().cycle()) {
        event.details.push(((*text).into(), (*text).into()));
    }
    for (time, text) in (1..).zip(nasty) {
        record.events.push(Event {
            time: f64::from(time),
            name: text.into(),
            machine: text.into(),
            fault: true,
            details: Vec::new(),
        });
    }
    record.header.file = nasty[0].into();
    record.header.cluster = nasty[3].into();
    record.header.reproduce = Some(nasty[1].into());
    record.header.left_out = LeftOut {
        attempts: 1_000_000,
        operations: 10_000_000,
        ..LeftOut::default()
    };
    record.header.directories = vec![(Bytes::whole(b"\x15\x01"), vec![nasty[0].into()])];
    record.header.verdict = Verdict {
        passed: false,
        kind: Some(nasty[2].into()),
        message: Some(nasty.join(" ")),
        client: Some(1),
        workload: Some(nasty[0].into()),
        phase: Some(nasty[4].into()),
        time: Some(9.5),
    };
    let proof = |at, note: &str| Proof {
        at,
        note: note.into(),
    };
    let finding = Finding {
        name: "hostile",
        sentence: nasty[0].into(),
        proof: vec![
            proof(Evidence::Operation(0), nasty[1]),
            // Evidence that is not in the record must not break the page either.
            proof(Evidence::Operation(4_000_000), nasty[3]),
            proof(Evidence::Attempt(4_000_000), nasty[4]),
            proof(Evidence::Committed(4_000_000), nasty[6]),
        ],
        advice: nasty[2].into(),
        times: 1,
    };
    let story = Story {
        key: Bytes::whole(nasty[0].as_bytes()),
        text: nasty[0].into(),
        chapters: vec![proof(Evidence::Attempt(0), nasty[0])],
        earlier: 0,
        later: 0,
    };
    let explanation = Explanation {
        findings: vec![finding],
        stories: vec![story],
    };
    (record, explanation)
}
