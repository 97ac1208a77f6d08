//! What a real FoundationDB answered, asked again of this client.
//!
//! `conformance/golden` holds seeded scenarios with the answers of a real FoundationDB 7.4,
//! recorded through its C API. Here they are played on the client itself, on a simulated cluster
//! and in virtual time: no library, no thread, no waiting. `golden.py` plays the same files through
//! `libfdb_c.so`.
//!
//! `SHAKETABLE_GOLDEN=reads-0007` plays the files whose names begin with that, and shows every
//! difference.

use bytes::Bytes;
use serde_json::{Value, json};
use shaketable_cluster::client::options::{Scope, find};
use shaketable_cluster::client::{ConflictRangeKind, Database, Pending, RangeLimits, Transaction};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::error::Error;
use shaketable_cluster::proto::{KeyRange, KeySelector, KeyValues, Versionstamp};
use shaketable_cluster::release::Release;
use shaketable_kernel::{Address, Kernel, NetworkConfig, ProcessId, ProcessSpec};
use std::collections::BTreeMap;
use std::path::Path;

/// How long an answer may take, as in the recording, in seconds.
const PATIENCE: f64 = 8.0;
const PATIENCE_ON_ERROR: f64 = 35.0;

#[test]
fn reads_agree_with_foundationdb() {
    play_kind("reads");
}

#[test]
fn overlay_agrees_with_foundationdb() {
    play_kind("overlay");
}

#[test]
fn conflicts_agree_with_foundationdb() {
    play_kind("conflicts");
}

#[test]
fn misuse_agrees_with_foundationdb() {
    play_kind("misuse");
}

#[test]
fn stamps_agree_with_foundationdb() {
    play_kind("stamps");
}

#[test]
fn batches_agree_with_foundationdb() {
    play_kind("batches");
}

#[test]
fn defaults_agree_with_foundationdb() {
    play_kind("defaults");
}

#[test]
fn watches_agree_with_foundationdb() {
    play_kind("watches");
}

#[test]
fn mapped_ranges_agree_with_foundationdb() {
    play_kind("mapped");
}

#[test]
fn special_keys_agree_with_foundationdb() {
    play_kind("special");
}

fn play_kind(kind: &str) {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../conformance/golden/recorded");
    let wanted = std::env::var("SHAKETABLE_GOLDEN").ok();
    let mut names: Vec<String> = std::fs::read_dir(directory.clone())
        .expect("the recorded answers are part of the repository")
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.split(['-', '@']).next() == Some(kind))
        .filter(|name| {
            wanted
                .as_ref()
                .is_none_or(|wanted| name.starts_with(wanted))
        })
        .collect();
    names.sort();
    let shown = if wanted.is_some() { usize::MAX } else { 2 };
    let (mut failed, mut steps, mut wrong) = (0, 0, 0);
    for name in &names {
        let api_version = match name.split(['-', '@']).nth(1) {
            Some(version) if name.contains('@') => version.parse().unwrap(),
            _ => 740,
        };
        let text = std::fs::read_to_string(directory.join(name)).unwrap();
        let mut player = Player::new(api_version);
        let mut differences = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let step: Value = serde_json::from_str(line).unwrap();
            let answer = player.play(&Step(&step));
            steps += 1;
            if answer != step["answer"] {
                let mut asked = step.clone();
                asked.as_object_mut().unwrap().remove("answer");
                let answers = format!(
                    "FoundationDB: {}\n    here:         {answer}",
                    step["answer"]
                );
                differences.push(format!("  step {number}: {asked}\n    {answers}"));
            }
        }
        if !differences.is_empty() {
            failed += 1;
            wrong += differences.len();
            println!("{name}: {} steps differ", differences.len());
            differences
                .iter()
                .take(shown)
                .for_each(|difference| println!("{difference}"));
        }
    }
    println!(
        "{kind}: {steps} steps of {} files, {wrong} differ in {failed} files",
        names.len()
    );
    assert_eq!(wrong, 0, "answers differ from those of FoundationDB");
}

/// One line of a scenario.
struct Step<'a>(&'a Value);

impl Step<'_> {
    fn number(&self, name: &str) -> i64 {
        self.0[name]
            .as_i64()
            .unwrap_or_else(|| panic!("{name} in {}", self.0))
    }

    fn int(&self, name: &str) -> i32 {
        self.number(name) as i32
    }

    fn flag(&self, name: &str) -> bool {
        self.number(name) != 0
    }

    fn text(&self, name: &str) -> &str {
        self.0[name]
            .as_str()
            .unwrap_or_else(|| panic!("{name} in {}", self.0))
    }

    /// Hex, or `00*10001`: that byte repeated this many times.
    fn bytes(&self, name: &str) -> Bytes {
        let text = self.text(name);
        let (digits, times) = match text.split_once('*') {
            Some((digits, times)) => (digits, times.parse().unwrap()),
            None => (text, 1),
        };
        unhex(digits).repeat(times).into()
    }

    fn range(&self) -> KeyRange {
        KeyRange {
            begin: self.bytes("begin"),
            end: self.bytes("end"),
        }
    }

    fn selector(&self, name: &str) -> KeySelector {
        KeySelector {
            key: self.bytes(name),
            or_equal: self.flag(&format!("{name}_or_equal")),
            offset: self.int(&format!("{name}_offset")),
        }
    }
}

/// Plays steps on its own cluster.
struct Player {
    kernel: Kernel,
    process: ProcessId,
    cluster: Cluster,
    api_version: i32,
    database: Database,
    other_database: Option<Database>,
    transactions: BTreeMap<i64, Transaction>,
    last_error: BTreeMap<i64, i32>,
    watches: BTreeMap<i64, Pending<()>>,
    stamps: BTreeMap<i64, Pending<Versionstamp>>,
    stamp: Option<[u8; 10]>,
}

impl Player {
    fn new(api_version: i32) -> Player {
        let kernel = Kernel::simulation(1);
        // The recorded cluster was one process on the same machine as its client.
        kernel.set_network_config(NetworkConfig::instant());
        let cluster = Cluster::start(&kernel, ClusterConfig::single_process(true));
        let process = kernel.add_process(ProcessSpec {
            name: "client".into(),
            address: Address::v4(2, 0, 0, 1, 1),
            ..ProcessSpec::default()
        });
        let database = cluster.open_database(process, api_version);
        let player = Player {
            kernel,
            process,
            cluster,
            api_version,
            database,
            other_database: None,
            transactions: BTreeMap::new(),
            last_error: BTreeMap::new(),
            watches: BTreeMap::new(),
            stamps: BTreeMap::new(),
            stamp: None,
        };
        let first = player.database.create_transaction();
        first.clear_range(Bytes::new(), Bytes::from_static(b"\xff"));
        player.kernel.block_on(first.commit()).unwrap().unwrap();
        player.kernel.block_on(player.kernel.sleep(0.1)).unwrap();
        player
    }

    /// Returns the answer, an error, or a note that it is still pending after all that time.
    fn wait<T>(&self, pending: Pending<T>, read: impl FnOnce(T) -> Value) -> Value {
        self.wait_for(PATIENCE, pending, read)
    }

    fn wait_for<T>(
        &self,
        seconds: f64,
        pending: Pending<T>,
        read: impl FnOnce(T) -> Value,
    ) -> Value {
        match self
            .kernel
            .block_on(self.kernel.timeout(seconds, pending))
            .unwrap()
        {
            None => json!({"pending": true}),
            Some(Ok(result)) => read(result),
            Some(Err(error)) => json!({"error": error.0}),
        }
    }

    fn drop_transaction(&mut self, t: i64) {
        self.watches.remove(&t);
        self.stamps.remove(&t);
        self.transactions.remove(&t);
    }

    fn get_range(&self, transaction: &Transaction, step: &Step<'_>) -> Value {
        let limits = RangeLimits::from_parameters(
            step.int("limit"),
            step.int("target_bytes"),
            step.int("mode"),
            step.int("iteration"),
        );
        let limits = match limits {
            Ok(limits) => limits,
            Err(error) => return json!({"error": error.0}),
        };
        let (begin, end) = (step.selector("begin"), step.selector("end"));
        let (snapshot, reverse) = (step.flag("snapshot"), step.flag("reverse"));
        self.wait(
            transaction.get_range(begin, end, limits, snapshot, reverse),
            rows,
        )
    }

    fn whole_range(&self, transaction: &Transaction, range: KeyRange) -> Pending<KeyValues> {
        let limits = RangeLimits::from_parameters(0, 0, -2, 1).unwrap();
        let edge = KeySelector::first_greater_or_equal;
        transaction.get_range(edge(range.begin), edge(range.end), limits, false, false)
    }

    fn dump(&self) -> Value {
        let transaction = self.database.create_transaction();
        let limits = RangeLimits::from_parameters(10_000, 0, 0, 1).unwrap();
        let edge = KeySelector::first_greater_or_equal;
        let (begin, end) = (edge(Bytes::new()), edge(Bytes::from_static(b"\xff")));
        self.wait(
            transaction.get_range(begin, end, limits, false, false),
            rows,
        )
    }

    fn play(&mut self, step: &Step<'_>) -> Value {
        let t = step.number("t");
        let operation = step.text("op");
        if operation == "new" {
            self.drop_transaction(t);
            self.last_error.insert(t, 0);
        }
        let database = &self.database;
        let transaction = self
            .transactions
            .entry(t)
            .or_insert_with(|| database.create_transaction())
            .clone();
        match operation {
            "new" => json!({"ok": true}),
            "option" | "option_raw" => {
                let code = step.int("code");
                if let Err(error) = find(Release::V7_4, Scope::Transaction, code) {
                    return json!({"error": error.0});
                }
                let value = (operation == "option_raw").then(|| step.bytes("value"));
                transaction.set_option(code, value.as_deref());
                json!({"error": 0})
            }
            "set" => {
                transaction.set(step.bytes("key"), step.bytes("value"));
                json!({})
            }
            "clear" => {
                transaction.clear(step.bytes("key"));
                json!({})
            }
            "clear_range" => {
                transaction.clear_range(step.bytes("begin"), step.bytes("end"));
                json!({})
            }
            "atomic" => {
                transaction.atomic_op(step.bytes("key"), step.bytes("value"), step.int("code"));
                json!({})
            }
            "add_conflict" => {
                let range = step.range();
                if range.begin > range.end {
                    return json!({"error": Error::INVERTED_RANGE.0});
                }
                let kind = match step.int("code") {
                    0 => ConflictRangeKind::Read,
                    1 => ConflictRangeKind::Write,
                    _ => return json!({"error": Error::CLIENT_INVALID_OPERATION.0}),
                };
                transaction.add_conflict_range(range, kind);
                json!({"error": 0})
            }
            "get" => {
                let pending = transaction.get(step.bytes("key"), step.flag("snapshot"));
                self.wait(pending, |value| json!({"value": value.map(|v| hex(&v))}))
            }
            "present" => {
                let pending = transaction.get(step.bytes("key"), false);
                self.wait(pending, |value| json!({"present": value.is_some()}))
            }
            "get_key" => {
                let selector = KeySelector {
                    key: step.bytes("key"),
                    or_equal: step.flag("or_equal"),
                    offset: step.int("offset"),
                };
                let pending = transaction.get_key(selector, step.flag("snapshot"));
                self.wait(pending, |key| json!({"key": hex(&key)}))
            }
            "get_range" => self.get_range(&transaction, step),
            "range_summary" => {
                let answer = self.get_range(&transaction, step);
                let Some(rows) = answer["rows"].as_array() else {
                    return answer;
                };
                let key = |row: Option<&Value>| row.map_or(Value::Null, |row| row[0].clone());
                json!({
                    "count": rows.len(), "first": key(rows.first()), "last": key(rows.last()),
                    "more": answer["more"], "digest": digest(rows),
                })
            }
            "get_range_code" => {
                let pending = self.whole_range(&transaction, step.range());
                self.wait(pending, |_| json!({"ok": true}))
            }
            "special_range" => {
                let prefix = format!("/transaction/{}/", step.text("prefix"));
                let begin = [b"\xff\xff", prefix.as_bytes()].concat();
                let end = [&begin[..], b"\xff\xff"].concat();
                let range = KeyRange {
                    begin: begin.into(),
                    end: end.into(),
                };
                self.wait(self.whole_range(&transaction, range), rows)
            }
            "mapped_range" => self.get_mapped_range(&transaction, step),
            "read_version" => self.wait(transaction.get_read_version(), version),
            "set_read_version" => {
                transaction.set_read_version(step.number("version"));
                json!({})
            }
            "commit" => {
                let answer = self.wait(transaction.commit(), |()| json!({"ok": true}));
                self.last_error
                    .insert(t, answer["error"].as_i64().unwrap_or(0) as i32);
                answer
            }
            "committed_version" => version(transaction.get_committed_version()),
            "approximate_size" => self.wait(
                transaction.get_approximate_size(),
                |size| json!({"size": size}),
            ),
            "on_error" => {
                let pending = transaction.on_error(Error(step.int("code")));
                self.wait_for(PATIENCE_ON_ERROR, pending, |()| json!({"ok": true}))
            }
            "on_error_last" => match self.last_error.get(&t).copied().unwrap_or(0) {
                0 => json!({"skipped": true}),
                code => self.wait(transaction.on_error(Error(code)), |()| json!({"ok": true})),
            },
            "reset" => {
                transaction.reset();
                json!({})
            }
            "cancel" => {
                transaction.cancel();
                json!({})
            }
            "versionstamp" => {
                self.stamps.insert(t, transaction.get_versionstamp());
                json!({})
            }
            "versionstamp_result" => {
                let Some(pending) = self.stamps.remove(&t) else {
                    return json!({"skipped": true});
                };
                let mut stamp = None;
                let answer = self.wait(pending, |found| {
                    stamp = Some(found.to_bytes());
                    json!({"length": 10})
                });
                self.stamp = stamp;
                answer
            }
            "dump" => self.dump(),
            "dump_stamped" => {
                let Some(stamp) = self.stamp else {
                    return json!({"skipped": true});
                };
                let mut answer = self.dump();
                let (stamp, hidden) = (hex(&stamp), hex(b"<stamp>"));
                if let Some(rows) = answer["rows"].as_array_mut() {
                    for cell in rows.iter_mut().flat_map(|row| row.as_array_mut().unwrap()) {
                        *cell = json!(replace_bytes(cell.as_str().unwrap(), &stamp, &hidden));
                    }
                    rows.retain(|row| {
                        let cells = row.as_array().unwrap();
                        cells
                            .iter()
                            .any(|cell| cell.as_str().unwrap().contains(&hidden))
                    });
                }
                answer
            }
            "watch" => {
                self.watches.insert(t, transaction.watch(step.bytes("key")));
                json!({})
            }
            "watch_state" => {
                let seconds = step.0["wait"].as_f64().unwrap();
                let Some(watch) = self.watches.get_mut(&t) else {
                    return json!({"skipped": true});
                };
                match self
                    .kernel
                    .block_on(self.kernel.timeout(seconds, &mut *watch))
                    .unwrap()
                {
                    None => json!({"pending": true}),
                    Some(result) => {
                        self.watches.insert(t, Pending::from(result));
                        json!({"fired": result.err().map_or(0, |error| error.0)})
                    }
                }
            }
            "watch_drop" => {
                self.watches.remove(&t);
                json!({})
            }
            "database" => {
                self.other_database =
                    Some(self.cluster.open_database(self.process, self.api_version));
                json!({})
            }
            "database_option" => {
                let code = step.int("code");
                if let Err(error) = find(Release::V7_4, Scope::Database, code) {
                    return json!({"error": error.0});
                }
                let value = step.bytes("value");
                self.other_database
                    .as_ref()
                    .unwrap()
                    .set_option(code, Some(&value));
                json!({"error": 0})
            }
            "new_of_database" => {
                self.drop_transaction(t);
                let transaction = self.other_database.as_ref().unwrap().create_transaction();
                self.transactions.insert(t, transaction);
                json!({"ok": true})
            }
            "sleep" => {
                let seconds = step.0["seconds"].as_f64().unwrap();
                self.kernel.block_on(self.kernel.sleep(seconds)).unwrap();
                json!({})
            }
            other => panic!("the player does not know the step {other:?}"),
        }
    }

    fn get_mapped_range(&self, transaction: &Transaction, step: &Step<'_>) -> Value {
        let limits = RangeLimits::from_parameters(
            step.int("limit"),
            step.int("target_bytes"),
            step.int("mode"),
            step.int("iteration"),
        );
        let limits = match limits {
            Ok(limits) => limits,
            Err(error) => return json!({"error": error.0}),
        };
        let edge = KeySelector::first_greater_or_equal;
        let pending = transaction.get_mapped_range(
            edge(step.bytes("begin")),
            edge(step.bytes("end")),
            step.bytes("mapper"),
            limits,
            step.flag("snapshot"),
            step.flag("reverse"),
        );
        self.wait(pending, |mapped| {
            let rows = mapped.rows.iter().map(|row| {
                let inner: Vec<Value> = row
                    .rows
                    .iter()
                    .map(|row| json!([hex(&row.key), hex(&row.value)]))
                    .collect();
                json!([hex(&row.row.key), hex(&row.row.value), inner])
            });
            json!({"rows": rows.collect::<Vec<_>>(), "more": i32::from(mapped.more)})
        })
    }
}

fn rows(result: KeyValues) -> Value {
    let rows: Vec<Value> = result
        .rows
        .iter()
        .map(|row| json!([hex(&row.key), hex(&row.value)]))
        .collect();
    json!({"rows": rows, "more": i32::from(result.more)})
}

/// Versions differ from run to run.
fn version(version: i64) -> Value {
    if version > 0 {
        json!({"version": "positive"})
    } else {
        json!({"version": version})
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(digits: &str) -> Vec<u8> {
    let pairs = digits.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Replaces whole bytes in a string of hex digits.
fn replace_bytes(text: &str, from: &str, to: &str) -> String {
    let mut replaced = String::new();
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with(from) {
            replaced.push_str(to);
            at += from.len();
        } else {
            replaced.push_str(&text[at..at + 2]);
            at += 2;
        }
    }
    replaced
}

/// The digest that stands for many rows in the recording: of the rows as Python writes them.
fn digest(rows: &[Value]) -> String {
    let row = |row: &Value| format!("[{}, {}]", row[0], row[1]);
    let text = format!("[{}]", rows.iter().map(row).collect::<Vec<_>>().join(", "));
    let digest = hex(&<sha2::Sha256 as sha2::Digest>::digest(text.as_bytes()));
    digest[..16].to_owned()
}
