//! Plays the steps of a recorded scenario and answers in the words of the recording.
//!
//! One step is one call, except where a step's name says otherwise. Versions are replaced by words
//! and stamps by their length, since they differ from run to run; everything else is compared as it
//! is.

use crate::library::{
    Database, Future, Library, RangeOptions, Rows, Selector, Transaction, is_retryable,
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// How long an answer may take before it counts as pending, in seconds. On the machine's clock it
/// may come this late; it never comes too early.
const PATIENCE: f64 = 60.0;
/// The same where FoundationDB had no answer either: nothing is gained by waiting long for what
/// must not come.
const PATIENCE_IN_VAIN: f64 = 1.0;

/// The state of one scenario.
pub struct Player<'a> {
    library: &'a Library,
    transactions: BTreeMap<i64, Transaction>,
    /// The error of each transaction's last commit, or 0.
    last_commit: BTreeMap<i64, i32>,
    watches: BTreeMap<i64, Future>,
    stamps: BTreeMap<i64, Future>,
    /// The last stamp that was read.
    stamp: Option<Vec<u8>>,
    database: Option<Database>,
}

impl Player<'_> {
    /// A player on an empty database.
    pub fn new(library: &Library) -> Player<'_> {
        clear_everything(library);
        Player {
            library,
            transactions: BTreeMap::new(),
            last_commit: BTreeMap::new(),
            watches: BTreeMap::new(),
            stamps: BTreeMap::new(),
            stamp: None,
            database: None,
        }
    }

    /// Plays one step and returns its answer.
    pub fn play(&mut self, step: &Step) -> Value {
        let answer = self.call(step);
        self.library.clock().settle();
        answer
    }

    fn call(&mut self, step: &Step) -> Value {
        match step.text("op") {
            "new" => {
                let transaction = self.library.transaction();
                self.replace(step, transaction)
            }
            "new_of_database" => {
                let transaction = self
                    .database
                    .as_ref()
                    .expect("a database was opened")
                    .transaction();
                self.replace(step, transaction)
            }
            "database" => {
                self.database = Some(self.library.open_database());
                json!({})
            }
            "database_option" => {
                let database = self.database.as_ref().expect("a database was opened");
                json!({ "error": database.set_option(step.int("code"), &step.bytes("value")) })
            }
            "sleep" => {
                self.library.clock().sleep(step.seconds("seconds"));
                json!({})
            }
            "watch_state" | "watch_drop" => self.watch_step(step),
            "versionstamp_result" => self.stamp_step(step),
            "dump" => self.dump(None),
            "dump_stamped" => self.dump_stamped(),
            _ => self.transaction_step(step),
        }
    }

    /// A step that begins with a call of the transaction.
    fn transaction_step(&mut self, step: &Step) -> Value {
        let id = step.number("t");
        let library = self.library;
        let transaction = self
            .transactions
            .entry(id)
            .or_insert_with(|| library.transaction());
        match step.text("op") {
            "option" => return json!({ "error": transaction.set_option(step.int("code"), None) }),
            "option_raw" => {
                let code = transaction.set_option(step.int("code"), Some(&step.bytes("value")));
                return json!({ "error": code });
            }
            "set" => transaction.set(&step.bytes("key"), &step.bytes("value")),
            "clear" => transaction.clear(&step.bytes("key")),
            "clear_range" => transaction.clear_range(&step.bytes("begin"), &step.bytes("end")),
            "atomic" => {
                transaction.atomic_op(&step.bytes("key"), &step.bytes("value"), step.int("code"))
            }
            "add_conflict" => {
                let (begin, end) = (step.bytes("begin"), step.bytes("end"));
                return json!({ "error": transaction.add_conflict_range(&begin, &end, step.int("code")) });
            }
            "get" => {
                return answer(
                    transaction.get(&step.bytes("key"), step.int("snapshot")),
                    value,
                );
            }
            "present" => {
                return answer(
                    transaction.get(&step.bytes("key"), 0),
                    |f| json!({ "present": f.value().is_some() }),
                );
            }
            "get_key" => {
                let key = step.bytes("key");
                let selector = Selector(&key, step.int("or_equal"), step.int("offset"));
                let future = transaction.get_key(selector, step.int("snapshot"));
                return answer(future, |f| json!({ "key": hex(&f.key()) }));
            }
            "get_range" => return answer(range(transaction, step), rows),
            "range_summary" => return answer(range(transaction, step), summary),
            "get_range_code" => {
                let future = all_between(transaction, &step.bytes("begin"), &step.bytes("end"));
                return answer(future, |_| json!({ "ok": true }));
            }
            "special_range" => {
                let prefix = [
                    b"\xff\xff/transaction/",
                    step.text("prefix").as_bytes(),
                    b"/",
                ]
                .concat();
                let future =
                    all_between(transaction, &prefix, &[&prefix, &b"\xff\xff"[..]].concat());
                return answer(future, rows);
            }
            "mapped_range" => {
                let (begin, end, mapper) =
                    (step.bytes("begin"), step.bytes("end"), step.bytes("mapper"));
                let (begin, end) = (Selector(&begin, 0, 1), Selector(&end, 0, 1));
                let future =
                    transaction.get_mapped_range(begin, end, &mapper, step.range_options());
                return answer(future, mapped_rows);
            }
            "read_version" => {
                return answer(
                    transaction.get_read_version(),
                    |f| json!({ "version": in_words(f.int64()) }),
                );
            }
            "set_read_version" => transaction.set_read_version(step.number("version")),
            "commit" => {
                let answer = answer(transaction.commit(), |_| json!({ "ok": true }));
                let code = answer["error"].as_i64().unwrap_or(0);
                self.last_commit.insert(id, code as i32);
                return answer;
            }
            "committed_version" => {
                return match transaction.get_committed_version() {
                    Ok(version) => json!({ "version": in_words(version) }),
                    Err(code) => json!({ "error": code }),
                };
            }
            "approximate_size" => {
                return answer(
                    transaction.get_approximate_size(),
                    |f| json!({ "size": f.int64() }),
                );
            }
            "on_error" => {
                let future = transaction.on_error(step.int("code"));
                return answer(future, |_| json!({ "ok": true }));
            }
            "on_error_last" => {
                return match self.last_commit.get(&id) {
                    None | Some(0) => json!({ "skipped": true }),
                    Some(code) => answer(transaction.on_error(*code), |_| json!({ "ok": true })),
                };
            }
            "reset" => transaction.reset(),
            "cancel" => transaction.cancel(),
            "versionstamp" => {
                let future = transaction.get_versionstamp();
                self.stamps.insert(id, future);
            }
            "watch" => {
                // The old watch goes before the new one is set, as it holds a slot of the handle.
                self.watches.remove(&id);
                let future = transaction.watch(&step.bytes("key"));
                self.watches.insert(id, future);
            }
            other => panic!("expected a step that golden.py knows, found {other}"),
        }
        json!({})
    }

    /// Puts a new transaction in the place of an old one, of which everything goes.
    fn replace(&mut self, step: &Step, transaction: Transaction) -> Value {
        let id = step.number("t");
        self.watches.remove(&id);
        self.stamps.remove(&id);
        self.transactions.insert(id, transaction);
        if step.text("op") == "new" {
            self.last_commit.insert(id, 0);
        }
        json!({ "ok": true })
    }

    fn watch_step(&mut self, step: &Step) -> Value {
        let id = step.number("t");
        if step.text("op") == "watch_drop" {
            self.watches.remove(&id);
            return json!({});
        }
        match self.watches.get(&id) {
            None => json!({ "skipped": true }),
            Some(watch) if watch.is_ready_within(step.seconds("wait")) => {
                json!({ "fired": watch.error() })
            }
            Some(_) => json!({ "pending": true }),
        }
    }

    fn stamp_step(&mut self, step: &Step) -> Value {
        let Some(future) = self.stamps.remove(&step.number("t")) else {
            return json!({ "skipped": true });
        };
        let in_vain = step.answer()["pending"] == true;
        let patience = if in_vain { PATIENCE_IN_VAIN } else { PATIENCE };
        let mut stamp = None;
        let answer = answer_within(patience, future, |f| {
            stamp = Some(f.key());
            json!({ "length": f.key().len() })
        });
        self.stamp = stamp;
        answer
    }

    /// Everything in the database, read by a transaction of its own.
    fn dump(&self, stamp: Option<&[u8]>) -> Value {
        let transaction = self.library.transaction();
        let options = RangeOptions {
            limit: 10_000,
            mode: 0,
            ..RangeOptions::default()
        };
        let future = transaction.get_range(Selector(b"", 0, 1), Selector(b"\xff", 0, 1), options);
        answer(future, |f| {
            let (mut rows, more) = f.rows();
            if let Some(stamp) = stamp {
                for (key, value) in &mut rows {
                    (*key, *value) = (hide(key, stamp), hide(value, stamp));
                }
            }
            json!({ "rows": pairs(&rows), "more": more })
        })
    }

    /// The rows that hold the last stamp, with a word in its place. Older stamps would differ from
    /// run to run.
    fn dump_stamped(&self) -> Value {
        let Some(stamp) = &self.stamp else {
            return json!({ "skipped": true });
        };
        let mut answer = self.dump(Some(stamp));
        if let Some(rows) = answer["rows"].as_array_mut() {
            let word = hex(STAMP_WORD);
            let holds = |text: &Value| text.as_str().is_some_and(|text| text.contains(&word));
            rows.retain(|row| holds(&row[0]) || holds(&row[1]));
        }
        answer
    }
}

impl Drop for Player<'_> {
    /// Futures go before their transactions, as in the recording.
    fn drop(&mut self) {
        self.watches.clear();
        self.stamps.clear();
        self.transactions.clear();
    }
}

/// One line of a recording: what to do, and what FoundationDB answered.
pub struct Step(pub Value);

impl Step {
    /// What FoundationDB answered.
    pub fn answer(&self) -> &Value {
        &self.0["answer"]
    }

    fn text(&self, field: &str) -> &str {
        self.0[field]
            .as_str()
            .unwrap_or_else(|| panic!("{field}: expected text in {}", self.0))
    }

    fn number(&self, field: &str) -> i64 {
        self.0[field]
            .as_i64()
            .unwrap_or_else(|| panic!("{field}: expected a number in {}", self.0))
    }

    fn int(&self, field: &str) -> i32 {
        self.number(field) as i32
    }

    fn seconds(&self, field: &str) -> f64 {
        self.0[field]
            .as_f64()
            .unwrap_or_else(|| panic!("{field}: expected seconds in {}", self.0))
    }

    /// Hex, or `00*10001`: that byte, this many times.
    fn bytes(&self, field: &str) -> Vec<u8> {
        let text = self.text(field);
        let (digits, times) = text.split_once('*').map_or((text, 1), |(digits, times)| {
            (digits, times.parse().expect("a number of repetitions"))
        });
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hex digits");
        (0..digits.len())
            .step_by(2)
            .map(byte)
            .collect::<Vec<u8>>()
            .repeat(times)
    }

    fn range_options(&self) -> RangeOptions {
        RangeOptions {
            limit: self.int("limit"),
            target_bytes: self.int("target_bytes"),
            mode: self.int("mode"),
            iteration: self.int("iteration"),
            snapshot: self.int("snapshot"),
            reverse: self.int("reverse"),
        }
    }
}

const STAMP_WORD: &[u8] = b"<stamp>";

fn clear_everything(library: &Library) {
    loop {
        let transaction = library.transaction();
        transaction.clear_range(b"", b"\xff");
        let commit = transaction.commit();
        assert!(
            commit.is_ready_within(PATIENCE),
            "clearing the database takes too long"
        );
        match commit.error() {
            0 => return,
            code => assert!(
                is_retryable(code),
                "clearing the database failed with {code}"
            ),
        }
    }
}

fn answer(future: Future, read: impl FnOnce(&Future) -> Value) -> Value {
    answer_within(PATIENCE, future, read)
}

fn answer_within(seconds: f64, future: Future, read: impl FnOnce(&Future) -> Value) -> Value {
    if !future.is_ready_within(seconds) {
        return json!({ "pending": true });
    }
    match future.error() {
        0 => read(&future),
        code => json!({ "error": code }),
    }
}

fn range(transaction: &Transaction, step: &Step) -> Future {
    let (begin, end) = (step.bytes("begin"), step.bytes("end"));
    let begin = Selector(&begin, step.int("begin_or_equal"), step.int("begin_offset"));
    let end = Selector(&end, step.int("end_or_equal"), step.int("end_offset"));
    transaction.get_range(begin, end, step.range_options())
}

fn all_between(transaction: &Transaction, begin: &[u8], end: &[u8]) -> Future {
    transaction.get_range(
        Selector(begin, 0, 1),
        Selector(end, 0, 1),
        RangeOptions::default(),
    )
}

fn value(future: &Future) -> Value {
    json!({ "value": future.value().map(|value| hex(&value)) })
}

fn rows(future: &Future) -> Value {
    let (rows, more) = future.rows();
    json!({ "rows": pairs(&rows), "more": more })
}

fn mapped_rows(future: &Future) -> Value {
    let (rows, more) = future.mapped_rows();
    let rows: Vec<Value> = rows
        .iter()
        .map(|(key, value, inner)| json!([hex(key), hex(value), pairs(inner)]))
        .collect();
    json!({ "rows": rows, "more": more })
}

/// Count, first and last key, and a digest of all rows as Python prints them.
fn summary(future: &Future) -> Value {
    let (rows, more) = future.rows();
    let printed: Vec<String> = rows
        .iter()
        .map(|(key, value)| format!("[\"{}\", \"{}\"]", hex(key), hex(value)))
        .collect();
    let digest = Sha256::digest(format!("[{}]", printed.join(", ")));
    json!({
        "count": rows.len(),
        "first": rows.first().map(|(key, _)| hex(key)),
        "last": rows.last().map(|(key, _)| hex(key)),
        "more": more,
        "digest": hex(&digest)[..16],
    })
}

fn pairs(rows: &Rows) -> Vec<Value> {
    rows.iter()
        .map(|(key, value)| json!([hex(key), hex(value)]))
        .collect()
}

/// A version differs from run to run; that it is one does not.
fn in_words(version: i64) -> Value {
    if version > 0 {
        json!("positive")
    } else {
        json!(version)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes with a word in place of each stamp.
fn hide(bytes: &[u8], stamp: &[u8]) -> Vec<u8> {
    let mut result = Vec::new();
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        if let Some(after) = rest.strip_prefix(stamp) {
            result.extend_from_slice(STAMP_WORD);
            rest = after;
        } else {
            result.push(*first);
            rest = &rest[1..];
        }
    }
    result
}
