//! Small histories with a known cause, and the same histories without it.
//!
//! The corpus in `examples/bugs` proves findings on whole runs; here each history has only the
//! transactions that matter, so that a finding that comes or goes says why.

use shaketable_explain::{Evidence, Explanation, explain, lint, text};
use shaketable_record::{
    Answer, Attempt, AttemptId, Bytes, Call, Commit, Committed, End, Event, Fate, Header, Mutation,
    Operation, Phase, Place, Range, RangeCall, Record, Retry, Selector, Verdict,
};

/// A history under construction. Every call takes a second, every commit a version.
struct Run {
    record: Record,
    version: i64,
}

impl Run {
    fn new() -> Run {
        let phase = |client, phase: &str, begun| Phase {
            client,
            test: "test".into(),
            workload: "test".into(),
            phase: phase.into(),
            begun,
            ended: None,
            error: None,
        };
        Run {
            record: Record {
                header: Header {
                    file: "test.toml".into(),
                    seed: 7,
                    clients: 2,
                    ..Header::default()
                },
                places: (1..=9)
                    .map(|line| Place {
                        file: "src/lib.rs".into(),
                        line,
                        function: String::new(),
                    })
                    .collect(),
                phases: vec![phase(0, "start", 0.0), phase(1, "start", 0.0)],
                ..Record::default()
            },
            version: 100,
        }
    }

    fn now(&self) -> f64 {
        self.record.operations.len() as f64
    }

    fn begin(&mut self, client: u32) -> AttemptId {
        let transaction = self.record.attempts.len() as u32;
        self.attempt(client, transaction, 1, None)
    }

    fn attempt(
        &mut self,
        client: u32,
        transaction: u32,
        number: u32,
        retries: Option<Retry>,
    ) -> AttemptId {
        self.record.attempts.push(Attempt {
            client: Some(client),
            phase: Some(client),
            transaction,
            number,
            retries,
            begun: self.now(),
            ended: None,
            read_version: Some(self.version),
            commit: None,
            end: End::Dropped,
        });
        self.record.attempts.len() as AttemptId - 1
    }

    fn retry(&mut self, of: AttemptId, error: i32) -> AttemptId {
        let before = self.record.attempts[of as usize].clone();
        self.record.attempts[of as usize].end = End::Retried(error);
        let retry = Retry { attempt: of, error };
        let client = before.client.expect("it has one");
        self.attempt(client, before.transaction, before.number + 1, Some(retry))
    }

    fn call(&mut self, attempt: AttemptId, line: u32, call: Call, answer: Answer) -> u32 {
        let asked = self.now();
        self.record.operations.push(Operation {
            attempt,
            asked,
            answered: Some(asked + 0.5),
            place: Some(line - 1),
            call,
            answer,
        });
        self.record.attempts[attempt as usize].ended = Some(asked + 0.5);
        self.record.operations.len() as u32 - 1
    }

    fn get(
        &mut self,
        attempt: AttemptId,
        line: u32,
        name: &str,
        snapshot: bool,
        value: Option<&str>,
    ) {
        let call = Call::Get {
            key: key(name),
            snapshot,
        };
        let value = value.map(|value| Bytes::whole(value.as_bytes()));
        self.call(attempt, line, call, Answer::Value(value));
    }

    fn set(&mut self, attempt: AttemptId, line: u32, name: &str, value: &str) {
        let value = Bytes::whole(value.as_bytes());
        let key = key(name);
        self.call(attempt, line, Call::Set { key, value }, Answer::Nothing);
    }

    fn add(&mut self, attempt: AttemptId, line: u32, name: &str) {
        let call = Call::Atomic {
            key: key(name),
            operand: Bytes::whole(&1_i64.to_le_bytes()),
            name: "add".into(),
        };
        self.call(attempt, line, call, Answer::Nothing);
    }

    fn clears(&mut self, attempt: AttemptId, line: u32, name: &str) {
        let range = only(&key(name));
        self.call(attempt, line, Call::Clear { range }, Answer::Nothing);
    }

    /// Commits, with this answer, and this fate.
    fn commit(&mut self, attempt: AttemptId, answer: Result<(), i32>, lands: bool) {
        let (mut reads, mut mutations) = (Vec::new(), Vec::new());
        for operation in &self.record.operations {
            match &operation.call {
                _ if operation.attempt != attempt => {}
                Call::Get {
                    key,
                    snapshot: false,
                } => reads.push(only(key)),
                Call::Set { key, value } => mutations.push(Mutation::Set {
                    key: key.clone(),
                    value: value.clone(),
                }),
                Call::Clear { range } => mutations.push(Mutation::Clear {
                    range: range.clone(),
                }),
                Call::Atomic { key, operand, name } => mutations.push(Mutation::Atomic {
                    key: key.clone(),
                    operand: operand.clone(),
                    name: name.clone(),
                }),
                _ => {}
            }
        }
        self.version += 10;
        let fate = if lands {
            self.record.committed.push(Committed {
                version: self.version,
                batch_index: 0,
                attempt: Some(attempt),
                mutations: mutations.clone(),
            });
            Fate::Landed(self.record.committed.len() as u32 - 1)
        } else {
            Fate::Lost
        };
        let told = answer.map_or_else(Answer::Error, |()| Answer::Nothing);
        let operation = self.call(attempt, 9, Call::Commit, told);
        let own = &mut self.record.attempts[attempt as usize];
        own.end = answer.map_or_else(End::Failed, |()| End::Committed);
        own.commit = Some(Commit {
            operation,
            reads,
            writes: Vec::new(),
            mutations,
            fate,
            conflict: None,
        });
    }

    /// Fails in a check of client 0 that reads these keys.
    fn fails(self, message: &str, reads: &[(&str, Option<&str>)]) -> Explanation {
        self.fails_after(message, |run| run.look(reads))
    }

    /// Reads these keys in a transaction of the check.
    fn look(&mut self, reads: &[(&str, Option<&str>)]) {
        let check = self.begin(0);
        self.record.attempts[check as usize].phase = Some(2);
        for (name, value) in reads {
            self.get(check, 8, name, false, *value);
        }
    }

    /// Fails in a check of client 0, during which this happens.
    fn fails_after(mut self, message: &str, check: impl FnOnce(&mut Run)) -> Explanation {
        let begun = self.now();
        self.record.phases.push(Phase {
            client: 0,
            test: "test".into(),
            workload: "test".into(),
            phase: "check".into(),
            begun,
            ended: None,
            error: Some(message.into()),
        });
        check(&mut self);
        self.record.header.verdict = Verdict {
            passed: false,
            kind: Some("check failed".into()),
            message: Some(message.into()),
            client: Some(0),
            workload: Some("test".into()),
            phase: Some("check".into()),
            time: Some(self.now()),
        };
        let explanation = explain(&self.record);
        // Whatever is found can be shown, at any width.
        for width in [0, 80, 200] {
            let shown = text::text(&self.record, &explanation, width);
            assert!(shown.contains(message), "{shown}");
        }
        explanation
    }
}

fn key(name: &str) -> Bytes {
    Bytes::whole(name.as_bytes())
}

fn only(key: &Bytes) -> Range {
    Range {
        begin: key.clone(),
        end: Bytes::whole(&[key.kept(), &[0]].concat()),
    }
}

fn names(explanation: &Explanation) -> Vec<&str> {
    explanation
        .findings
        .iter()
        .map(|finding| finding.name)
        .collect()
}

/// An increment whose first commit was answered 1021, and its retry.
fn incremented_again(first_lands: bool) -> Run {
    let mut run = Run::new();
    let first = run.begin(0);
    run.add(first, 1, "counter");
    run.commit(first, Err(1021), first_lands);
    let second = run.retry(first, 1021);
    run.add(second, 1, "counter");
    run.commit(second, Ok(()), true);
    run
}

#[test]
fn an_increment_that_landed_twice_is_found() {
    let explanation = incremented_again(true).fails("1 was added, found 2", &[("counter", None)]);
    assert_eq!(names(&explanation), ["retry-after-unknown-result"]);
    let finding = &explanation.findings[0];
    assert!(
        finding.sentence.contains("src/lib.rs:1"),
        "{}",
        finding.sentence
    );
    assert_eq!(finding.times, 1);
    assert_eq!(explanation.stories[0].text, "\"counter\"");
}

#[test]
fn an_increment_that_did_not_land_twice_is_no_finding() {
    let explanation = incremented_again(false).fails("something else", &[("counter", None)]);
    assert_eq!(names(&explanation), [] as [&str; 0]);
}

#[test]
fn what_the_check_did_not_read_is_no_finding() {
    let explanation = incremented_again(true).fails("something else", &[("other", None)]);
    assert_eq!(names(&explanation), [] as [&str; 0]);
}

#[test]
fn a_number_that_is_too_small_was_not_added_to_twice() {
    let explanation = incremented_again(true).fails("5 were added, found 2", &[("counter", None)]);
    assert_eq!(names(&explanation), [] as [&str; 0]);
}

/// A row without a value whose key an attempt makes anew, after a commit that was answered with
/// this error; and what the check says of the rows that it found.
fn stored_again(error: i32, lands: bool, message: &str) -> Explanation {
    // The tuples ("row", 1) and ("row", 2).
    let rows = ["\x02row\0\x15\x01", "\x02row\0\x15\x02"];
    let mut run = Run::new();
    let first = run.begin(0);
    run.set(first, 1, rows[0], "");
    run.commit(first, Err(error), lands);
    let second = run.retry(first, error);
    run.set(second, 1, rows[1], "");
    run.commit(second, Ok(()), true);
    run.fails_after(message, |run| {
        let check = run.begin(0);
        run.record.attempts[check as usize].phase = Some(2);
        let found = if lands { &rows[..] } else { &rows[1..] };
        run.range(check, ["\x02row\0", "\x02row\x01"], found);
    })
}

#[test]
fn a_row_without_a_value_under_a_new_key_is_found() {
    let explanation = stored_again(1021, true, "expected 1 rows, found 2");
    assert_eq!(names(&explanation), ["retry-after-unknown-result"]);
    let sentence = &explanation.findings[0].sentence;
    let keys = "store a row under a new key ((\"row\", 1), then (\"row\", 2))";
    assert!(sentence.contains(keys), "{sentence}");
    // Rows that are too few are not there twice.
    let explanation = stored_again(1021, true, "expected 3 rows, found 2");
    assert_eq!(names(&explanation), [] as [&str; 0]);
}

#[test]
fn where_there_are_too_many_rows_none_is_missing() {
    let too_few = stored_again(1020, false, "expected 2 rows, found 1");
    assert_eq!(names(&too_few), ["state-kept-across-attempts"]);
    let too_many = stored_again(1020, false, "expected 0 rows, found 1");
    assert_eq!(names(&too_many), [] as [&str; 0]);
}

/// An increment that landed although its commit was dropped; then another task of the client writes
/// something else, before or after the increment is begun anew.
fn begun_anew(before_the_other: bool) -> Explanation {
    let mut run = Run::new();
    let first = run.begin(0);
    run.add(first, 1, "counter");
    run.commit(first, Err(1021), true);
    let early = before_the_other.then(|| run.begin(0));
    let lease = run.begin(0);
    run.set(lease, 2, "lease", "mine");
    run.commit(lease, Ok(()), true);
    let second = early.unwrap_or_else(|| run.begin(0));
    run.add(second, 1, "counter");
    run.commit(second, Ok(()), true);
    run.fails("1 was added, found 2", &[("counter", None)])
}

#[test]
fn another_task_of_the_client_does_not_hide_what_is_done_anew() {
    let name = "repeated-after-unknown-result";
    assert_eq!(names(&begun_anew(true)), [name]);
    // What begins after something else was done may be about something new; then it is the first
    // that the client has given up.
    let name = "unknown-result-taken-for-failure";
    assert_eq!(names(&begun_anew(false)), [name]);
}

#[test]
fn setting_the_same_value_again_is_no_finding() {
    let mut run = Run::new();
    let first = run.begin(0);
    run.set(first, 1, "name", "Ada");
    run.commit(first, Err(1021), true);
    let second = run.retry(first, 1021);
    run.set(second, 1, "name", "Ada");
    run.commit(second, Ok(()), true);
    let explanation = run.fails("something else", &[("name", Some("Ada"))]);
    assert_eq!(names(&explanation), [] as [&str; 0]);
}

/// Two clients that each read the other's key and write their own.
fn both_leave(snapshot: bool) -> Run {
    let mut run = Run::new();
    let (one, two) = (run.begin(0), run.begin(1));
    run.get(one, 1, "b", snapshot, None);
    run.get(two, 1, "a", snapshot, None);
    run.set(one, 2, "a", "left");
    run.set(two, 2, "b", "left");
    run.commit(one, Ok(()), true);
    run.commit(two, Ok(()), true);
    run
}

#[test]
fn a_cycle_of_two_transactions_is_write_skew() {
    let reads = [("a", Some("left")), ("b", Some("left"))];
    let explanation = both_leave(true).fails("both have left", &reads);
    assert_eq!(names(&explanation), ["write-skew"]);
    // Both reads and both commits.
    assert_eq!(explanation.findings[0].proof.len(), 4);
    // With conflict ranges such commits cannot be; if they were, it would not be the snapshots.
    let explanation = both_leave(false).fails("both have left", &reads);
    assert_eq!(names(&explanation), [] as [&str; 0]);
}

/// A value that is read and written back in two transactions, with or without a change in between.
fn read_then_write(changed: bool) -> Run {
    let mut run = Run::new();
    let first = run.begin(0);
    run.get(first, 1, "balance", false, None);
    if changed {
        let other = run.begin(1);
        run.set(other, 2, "balance", "10");
        run.commit(other, Ok(()), true);
    }
    let second = run.begin(0);
    run.set(second, 3, "balance", "5");
    run.commit(second, Ok(()), true);
    run
}

#[test]
fn a_change_between_two_transactions_that_belong_together_is_found() {
    let reads = [("balance", Some("5"))];
    let explanation = read_then_write(true).fails("15 was paid", &reads);
    assert_eq!(names(&explanation), ["split-read-and-write"]);
    let explanation = read_then_write(false).fails("15 was paid", &reads);
    assert_eq!(names(&explanation), [] as [&str; 0]);
}

/// Moves 1 from one account to another, each with what it holds before and after.
fn transfer(run: &mut Run, from: (&str, &str, &str), to: (&str, &str, &str)) {
    let transfer = run.begin(1);
    for (name, before, after) in [from, to] {
        run.get(transfer, 1, name, false, Some(before));
        run.set(transfer, 2, name, after);
    }
    run.commit(transfer, Ok(()), true);
}

#[test]
fn a_sum_over_two_transactions_is_torn_and_the_transfers_are_not() {
    let mut run = Run::new();
    let opens = run.begin(1);
    for name in ["a", "b", "c", "d"] {
        run.set(opens, 1, name, "10");
    }
    run.commit(opens, Ok(()), true);
    let ten = Some("10");
    let explanation = run.fails_after("the accounts hold 41", |run| {
        run.look(&[("a", ten), ("b", ten)]);
        transfer(run, ("a", "10", "9"), ("d", "10", "11"));
        run.look(&[("c", ten), ("d", Some("11"))]);
    });
    assert_eq!(names(&explanation), ["scan-across-transactions"]);
}

/// A number as FoundationDB adds it.
const ONE: &str = "\u{1}\0\0\0\0\0\0\0";
const TWO: &str = "\u{2}\0\0\0\0\0\0\0";

#[test]
fn a_number_that_was_drawn_for_a_row_is_no_lock() {
    let mut run = Run::new();
    for (client, before, number) in [(0, None, ONE), (1, Some(ONE), TWO)] {
        let draws = run.begin(client);
        run.get(draws, 1, "next", false, before);
        run.set(draws, 2, "next", number);
        run.commit(draws, Ok(()), true);
    }
    let writes = run.begin(0);
    run.set(writes, 3, "row 1", "x");
    run.commit(writes, Ok(()), true);
    let explanation = run.fails("row 1 was never seen", &[("row 1", Some("x"))]);
    assert_eq!(names(&explanation), [] as [&str; 0]);
}

#[test]
fn two_keys_of_two_clients_that_belong_together_are_found() {
    let mut run = Run::new();
    for (client, name, value) in [
        (0, "leader", "Ada"),
        (1, "leader", "Bob"),
        (1, "config", "Bob"),
        (0, "config", "Ada"),
    ] {
        let step = run.begin(client);
        run.set(step, 1, name, value);
        run.commit(step, Ok(()), true);
    }
    let reads = [("leader", Some("Bob")), ("config", Some("Ada"))];
    let explanation = run.fails("Bob leads, by Ada's", &reads);
    assert_eq!(names(&explanation)[0], "split-transaction");
}

#[test]
fn a_commit_that_failed_and_was_forgotten_is_found() {
    let mut run = Run::new();
    let first = run.begin(0);
    run.set(first, 1, "entry", "text");
    run.commit(first, Err(1020), false);
    let next = run.begin(0);
    run.set(next, 1, "another", "other text");
    run.commit(next, Ok(()), true);
    let explanation = run.fails("an entry is missing", &[("entry", None)]);
    assert_eq!(names(&explanation), ["error-swallowed"]);
}

#[test]
fn what_is_added_again_by_the_next_flush_is_found_although_it_waited_its_turn() {
    let mut run = Run::new();
    let flush = run.begin(0);
    run.add(flush, 1, "hits");
    run.commit(flush, Err(1021), true);
    // `on_error` was awaited, and the transaction thrown away.
    run.record.attempts[flush as usize].end = End::Retried(1021);
    let next = run.begin(0);
    run.add(next, 1, "hits");
    run.commit(next, Ok(()), true);
    let explanation = run.fails("1 hit, counted 2", &[("hits", Some("\x02\0\0\0\0\0\0\0"))]);
    assert_eq!(names(&explanation), ["repeated-after-unknown-result"]);
}

/// Reads a row of a page of three, and copies it. Row 3 is the last one.
fn copy_a_page(run: &mut Run, attempt: AttemptId, from: &str, to: &str, answer: Result<(), i32>) {
    read_a_page(run, attempt, &[from], to, from != "old 3");
    run.commit(attempt, answer, answer.is_ok());
}

fn read_a_page(run: &mut Run, attempt: AttemptId, page: &[&str], to: &str, more: bool) {
    let at = |name: &str| Selector {
        key: key(name),
        or_equal: false,
        offset: 1,
    };
    let call = Call::GetRange(RangeCall {
        begin: at(page[0]),
        end: at("old~"),
        limit: 3,
        target_bytes: 0,
        mode: -1,
        iteration: 1,
        snapshot: false,
        reverse: false,
    });
    let rows = Answer::Rows {
        rows: page.iter().map(|row| (key(row), key("x"))).collect(),
        more,
        count: page.len() as u32,
    };
    run.call(attempt, 1, call, rows);
    run.set(attempt, 2, to, "x");
}

#[test]
fn a_cursor_that_an_attempt_has_moved_is_found() {
    let mut run = Run::new();
    let first = run.begin(0);
    copy_a_page(&mut run, first, "old 1", "new 1", Err(1020));
    let second = run.retry(first, 1020);
    copy_a_page(&mut run, second, "old 3", "new 3", Ok(()));
    let reads = [("new 1", None), ("new 3", Some("x"))];
    let explanation = run.fails("a row was not copied", &reads);
    assert_eq!(names(&explanation), ["state-kept-across-attempts"]);
}

#[test]
fn a_page_that_the_next_transaction_continues_is_continued() {
    let mut run = Run::new();
    for (from, to) in [("old 1", "new 1"), ("old 2", "new 2"), ("old 3", "new 3")] {
        let page = run.begin(0);
        copy_a_page(&mut run, page, from, to, Ok(()));
    }
    let explanation = run.fails("something else", &[("new 1", Some("x"))]);
    let found = names(&explanation);
    assert!(!found.contains(&"range-not-continued"), "{found:?}");
}

#[test]
fn a_page_that_the_retry_reads_again_is_the_business_of_the_retry() {
    let mut run = Run::new();
    let first = run.begin(0);
    read_a_page(&mut run, first, &["old 1", "old 2"], "new 2", true);
    run.commit(first, Err(1021), true);
    let second = run.retry(first, 1021);
    let all = ["old 1", "old 2", "old 3"];
    read_a_page(&mut run, second, &all, "new 2", false);
    run.commit(second, Ok(()), true);
    let hazards = shaketable_explain::lint::lint(&run.record);
    let found: Vec<&str> = hazards.iter().map(|hazard| hazard.name).collect();
    assert!(!found.contains(&"range-not-continued"), "{found:?}");
}

/// Two attempts that read the same and count on, each with its own version, asked for before or
/// after the first read.
fn counted_outside(asks_first: bool) -> Explanation {
    let mut run = Run::new();
    let mut attempt = run.begin(0);
    for (number, answer) in [("1", Err(1020)), ("2", Ok(()))] {
        let version = Answer::Version(run.version);
        if asks_first {
            run.call(attempt, 1, Call::GetReadVersion, version.clone());
        }
        run.get(attempt, 2, "setting", false, None);
        if !asks_first {
            run.call(attempt, 1, Call::GetReadVersion, version);
        }
        run.set(attempt, 3, "count", number);
        run.commit(attempt, answer, answer.is_ok());
        if let Err(error) = answer {
            attempt = run.retry(attempt, error);
        }
    }
    run.fails("counted once, found 2", &[("count", Some("2"))])
}

#[test]
fn a_version_that_the_recorder_itself_asked_for_does_not_hide_kept_state() {
    let explanation = counted_outside(false);
    assert_eq!(names(&explanation), ["state-kept-across-attempts"]);
}

#[test]
fn a_version_that_the_author_asked_for_is_something_else_that_was_read() {
    let explanation = counted_outside(true);
    assert!(!names(&explanation).contains(&"state-kept-across-attempts"));
}

/// A reader of all entries looks twice, and entry 1 comes after entry 2 was seen.
fn came_behind_the_reader(message: &str) -> Explanation {
    let mut run = Run::new();
    let late = run.begin(1);
    run.writes(1, 1, "entry 2");
    let first = run.begin(0);
    run.entries(first, &["entry 2"]);
    run.set(late, 1, "entry 1", "entry 1");
    run.commit(late, Ok(()), true);
    run.fails_after(message, |run| {
        let again = run.begin(0);
        run.record.attempts[again as usize].phase = Some(2);
        run.entries(again, &["entry 1", "entry 2"]);
    })
}

#[test]
fn a_row_behind_a_reader_that_remembers_is_found_if_the_failure_speaks_of_it() {
    let explanation = came_behind_the_reader("entry 1 is missing");
    assert_eq!(names(&explanation)[0], "order-before-commit");
    let explanation = came_behind_the_reader("it is wrong");
    assert!(!names(&explanation).contains(&"order-before-commit"));
}

#[test]
fn the_story_of_a_key_does_not_run_backwards() {
    let mut run = Run::new();
    let doubtful = run.begin(1);
    run.set(doubtful, 1, "row", "one");
    run.commit(doubtful, Err(1021), true);
    let other = run.begin(0);
    run.set(other, 2, "row", "two");
    run.commit(other, Ok(()), true);
    // It landed at once, and its client was told long after.
    let asked = run.record.attempts[doubtful as usize].commit.clone();
    let asked = asked.expect("it committed").operation;
    run.record.operations[asked as usize].answered = Some(50.0);
    let record = run.record.clone();
    let explanation = run.fails("row is two", &[("row", Some("two"))]);
    let chapters = &explanation.stories[0].chapters;
    let times: Vec<f64> = chapters
        .iter()
        .filter_map(|chapter| match chapter.at {
            Evidence::Committed(_) => chapter.at.time(&record),
            _ => None,
        })
        .collect();
    assert_eq!(times.len(), 2);
    assert!(times.is_sorted(), "{times:?}");
}

impl Run {
    /// Reads all entries.
    fn entries(&mut self, attempt: AttemptId, rows: &[&str]) {
        self.range(attempt, ["entry ", "entry~"], rows);
    }

    /// Reads everything from one key to another.
    fn range(&mut self, attempt: AttemptId, [begin, end]: [&str; 2], rows: &[&str]) {
        let at = |name: &str| Selector {
            key: key(name),
            or_equal: false,
            offset: 1,
        };
        let call = Call::GetRange(RangeCall {
            begin: at(begin),
            end: at(end),
            limit: 0,
            target_bytes: 0,
            mode: -1,
            iteration: 0,
            snapshot: false,
            reverse: false,
        });
        let rows: Vec<(Bytes, Bytes)> = rows.iter().map(|row| (key(row), key(row))).collect();
        let count = rows.len() as u32;
        let more = false;
        self.call(attempt, 4, call, Answer::Rows { rows, count, more });
    }

    /// Everything of a client is gone.
    fn dies(&mut self, client: u32) {
        self.record.events.push(Event {
            time: self.now(),
            name: "WorkloadCrashed".into(),
            machine: String::new(),
            fault: false,
            details: vec![("Client".into(), client.to_string())],
        });
    }

    /// Writes a key in a transaction of its own.
    fn writes(&mut self, client: u32, line: u32, name: &str) {
        let step = self.begin(client);
        self.set(step, line, name, name);
        self.commit(step, Ok(()), true);
    }
}

/// Records, each followed by its entry in an index, except for the last of a life.
fn died_after_a_record() -> Run {
    let mut run = Run::new();
    for number in 0..3 {
        run.writes(1, 1, &format!("record {number}"));
        run.writes(1, 2, &format!("entry {number}"));
    }
    run.writes(1, 1, "record 3");
    run.dies(1);
    run
}

#[test]
fn a_death_between_two_transactions_that_belong_together_is_found() {
    let mut run = died_after_a_record();
    run.writes(1, 1, "record 4");
    run.writes(1, 2, "entry 4");
    let reads = [("record 3", Some("record 3")), ("entry 3", None)];
    let explanation = run.fails("record 3 has no entry", &reads);
    assert_eq!(names(&explanation)[0], "died-half-way");
    let sentence = &explanation.findings[0].sentence;
    assert!(sentence.contains("record 3") && sentence.contains("src/lib.rs:2"));
}

#[test]
fn a_client_that_never_comes_back_has_left_it_half_done_as_well() {
    let run = died_after_a_record();
    let reads = [("record 3", Some("record 3")), ("entry 3", None)];
    let explanation = run.fails("record 3 has no entry", &reads);
    assert_eq!(names(&explanation)[0], "died-half-way");
}

#[test]
fn what_the_next_life_makes_up_for_is_not_half_done() {
    let mut run = died_after_a_record();
    run.writes(1, 3, "life 2");
    run.writes(1, 2, "entry 3");
    run.writes(1, 1, "record 4");
    let reads = [("record 3", Some("record 3")), ("entry 4", None)];
    let explanation = run.fails("something else is wrong", &reads);
    assert!(!names(&explanation).contains(&"died-half-way"));
}

#[test]
fn what_is_not_done_every_time_does_not_belong_together() {
    let mut run = Run::new();
    for number in 0..3 {
        run.writes(1, 1, &format!("record {number}"));
        run.writes(1, 2, &format!("entry {number}"));
        run.writes(1, 1, &format!("record without an entry {number}"));
        run.writes(1, 1, &format!("another one {number}"));
    }
    run.dies(1);
    run.writes(1, 3, "life 2");
    let explanation = run.fails("wrong", &[("another one 2", Some("another one 2"))]);
    assert!(!names(&explanation).contains(&"died-half-way"));
}

#[test]
fn a_client_that_died_with_an_error_had_no_chance_to_call_on_error() {
    let hazards = |dies: bool| {
        let mut run = Run::new();
        let refused = run.begin(1);
        run.set(refused, 1, "row", "one");
        run.commit(refused, Err(1020), false);
        if dies {
            run.dies(1);
        }
        run.writes(1, 1, "row");
        let found = lint::lint(&run.record);
        found
            .iter()
            .any(|finding| finding.name == "on-error-not-called")
    };
    assert!(hazards(false));
    assert!(!hazards(true));
}

/// A name that was taken by a commit in doubt, whose retry found it taken; then the client went
/// on with this name.
fn found_taken(next: Option<&str>) -> Run {
    let mut run = Run::new();
    let first = run.begin(0);
    run.get(first, 1, "name/ada", false, None);
    run.set(first, 2, "name/ada", "user 7");
    run.commit(first, Err(1021), true);
    let retry = run.retry(first, 1021);
    run.get(retry, 1, "name/ada", false, Some("user 7"));
    if let Some(next) = next {
        let other = run.begin(0);
        run.get(other, 1, next, false, None);
        run.set(other, 2, next, "user 7");
        run.commit(other, Ok(()), true);
    }
    run
}

#[test]
fn a_retry_that_takes_its_own_entry_for_anothers_is_found() {
    let both = [("name/ada", Some("user 7")), ("name/eve", Some("user 7"))];
    let explanation = found_taken(Some("name/eve")).fails("two names", &both);
    assert_eq!(names(&explanation), ["own-entry-not-recognised"]);
    // The entry is what the failure complains of.
    let explanation = found_taken(None).fails("user 7 has name/ada", &both[..1]);
    assert_eq!(names(&explanation), ["own-entry-not-recognised"]);
}

#[test]
fn a_retry_that_finds_its_receipt_and_ends_is_no_finding() {
    let one = [("name/ada", Some("user 7"))];
    let explanation = found_taken(None).fails("something else", &one);
    assert_eq!(names(&explanation), [] as [&str; 0]);
}

/// A lease that is taken and given back; then it is taken by a commit in doubt, whose retry finds
/// it taken; then this happens, and the client looks at the lease four times.
fn lease_found_taken(looks_at_its_own: bool, then: impl FnOnce(&mut Run)) -> Explanation {
    let mut run = Run::new();
    let take = |run: &mut Run, term: &str, answer| {
        let take = run.begin(0);
        run.get(take, 1, "lease", false, None);
        run.set(take, 2, "lease", term);
        run.commit(take, answer, true);
        take
    };
    let look = |run: &mut Run, term: &str| {
        let look = run.begin(0);
        run.get(look, 1, "lease", false, Some(term));
    };
    take(&mut run, "term 1", Ok(()));
    if looks_at_its_own {
        look(&mut run, "term 1");
    }
    // It is given back by a transaction that looks with the same function.
    let back = run.begin(0);
    run.get(back, 1, "lease", false, Some("term 1"));
    run.clears(back, 3, "lease");
    run.commit(back, Ok(()), true);
    let first = take(&mut run, "term 2", Err(1021));
    let retry = run.retry(first, 1021);
    run.get(retry, 1, "lease", false, Some("term 2"));
    then(&mut run);
    for _ in 0..4 {
        look(&mut run, "term 2");
    }
    run.fails("the lease never ends", &[("lease", Some("term 2"))])
}

#[test]
fn a_client_that_waits_for_its_own_lease_is_found() {
    let explanation = lease_found_taken(false, |_| {});
    assert_eq!(names(&explanation), ["own-entry-not-recognised"]);
    let sentence = &explanation.findings[0].sentence;
    assert!(
        sentence.ends_with("it looked 4 times more, and found its own entry each time."),
        "{sentence}"
    );
}

#[test]
fn a_client_that_dies_while_it_waits_for_its_own_lease_has_waited_for_itself() {
    let explanation = lease_found_taken(false, |run| {
        for _ in 0..2 {
            let look = run.begin(0);
            run.get(look, 1, "lease", false, Some("term 2"));
        }
        run.dies(0);
    });
    assert_eq!(names(&explanation)[0], "own-entry-not-recognised");
    let sentence = &explanation.findings[0].sentence;
    assert!(sentence.contains("it looked 2 times more"), "{sentence}");
}

#[test]
fn a_client_that_does_not_wait_for_itself_is_no_finding() {
    // It has done something in between, so it knew that the lease was its own.
    let worked = lease_found_taken(false, |run| run.writes(0, 4, "work"));
    assert_eq!(names(&worked), [] as [&str; 0]);
    // It has died in between, and nothing could tell it what the life before had taken.
    let died = lease_found_taken(false, |run| run.dies(0));
    assert!(!names(&died).contains(&"own-entry-not-recognised"));
    // Another client has taken it in between.
    let taken = lease_found_taken(false, |run| run.writes(1, 2, "lease"));
    assert_eq!(names(&taken), [] as [&str; 0]);
    // It looks at what it has written even where it was told that it has.
    let looks = lease_found_taken(true, |_| {});
    assert_eq!(names(&looks), [] as [&str; 0]);
}

/// A payment whose commit was answered 1021 and had landed, and the next one with this receipt.
fn paid(receipt: &str) -> Explanation {
    let mut run = Run::new();
    let receipts = ["paid, 1, 0", "paid, 2, 0", receipt];
    for (receipt, answer) in receipts.into_iter().zip([Ok(()), Err(1021), Ok(())]) {
        let trx = run.begin(0);
        run.get(trx, 1, receipt, false, None);
        run.set(trx, 2, receipt, "");
        run.add(trx, 3, "sum");
        run.commit(trx, answer, true);
    }
    run.fails("2 were paid, found 3", &[("sum", None)])
}

#[test]
fn a_lost_result_that_was_taken_for_a_failure_is_told_from_one_that_was_tried_again() {
    assert_eq!(
        names(&paid("paid, 3, 0")),
        ["unknown-result-taken-for-failure"]
    );
    assert_eq!(
        names(&paid("paid, 2, 1"))[..1],
        ["repeated-after-unknown-result"]
    );
}

/// A number that was drawn by an addition and read afterwards, with an addition of another client
/// in between or not.
fn drawn(between: bool) -> Explanation {
    let mut run = Run::new();
    let first = run.begin(0);
    run.add(first, 1, "counter");
    run.commit(first, Ok(()), true);
    if between {
        let other = run.begin(1);
        run.add(other, 1, "counter");
        run.commit(other, Ok(()), true);
    }
    let read = run.begin(0);
    run.get(read, 2, "counter", false, None);
    let last = run.begin(0);
    let ticket = if between { "ticket 2" } else { "ticket 1" };
    run.set(last, 3, ticket, "");
    run.commit(last, Ok(()), true);
    run.fails("drawn twice", &[(ticket, Some(""))])
}

#[test]
fn a_number_that_is_read_after_it_was_drawn_is_found_if_another_client_drew_in_between() {
    assert_eq!(names(&drawn(true)), ["split-write-and-read"]);
    assert_eq!(names(&drawn(false)), [] as [&str; 0]);
}

#[test]
fn a_lease_that_is_renewed_after_it_was_lost_is_found() {
    let mut run = Run::new();
    for (client, value) in [(0, "client 0"), (1, "client 1")] {
        let take = run.begin(client);
        run.get(take, 1, "lease", false, None);
        run.set(take, 2, "lease", value);
        run.commit(take, Ok(()), true);
    }
    let renew = run.begin(0);
    run.set(renew, 3, "lease", "client 0, still");
    run.set(renew, 4, "entry", "mine");
    run.commit(renew, Ok(()), true);
    let explanation = run.fails("two writers", &[("entry", Some("mine"))]);
    assert_eq!(names(&explanation), ["wrote-after-losing-lock"]);
}

/// A key that is written, read and written again in one transaction; what the read was told.
fn written_twice(told: &str) -> Explanation {
    let mut run = Run::new();
    let trx = run.begin(0);
    run.get(trx, 1, "sum", false, Some("1"));
    run.set(trx, 2, "sum", "2");
    run.get(trx, 1, "sum", false, Some(told));
    run.set(trx, 2, "sum", "3");
    run.commit(trx, Ok(()), true);
    run.fails("the sum is wrong", &[("sum", Some("3"))])
}

#[test]
fn a_transaction_that_does_not_read_its_own_write_is_found() {
    assert_eq!(names(&written_twice("1")), ["own-write-not-read"]);
    assert_eq!(names(&written_twice("2")), [] as [&str; 0]);
}

#[test]
fn two_rows_under_one_versionstamp_are_found() {
    let mut run = Run::new();
    let trx = run.begin(0);
    for part in ["part 1", "part 2"] {
        let call = Call::Atomic {
            key: key("mail/stamp"),
            operand: Bytes::whole(part.as_bytes()),
            name: "set_versionstamped_key".into(),
        };
        run.call(trx, 1, call, Answer::Nothing);
    }
    run.commit(trx, Ok(()), true);
    let explanation = run.fails("part 1 is missing", &[("mail/stamp", Some("part 2"))]);
    assert_eq!(names(&explanation), ["same-versionstamp"]);
}

#[test]
fn a_run_that_passed_needs_no_explanation() {
    let mut run = incremented_again(true);
    run.record.header.verdict.passed = true;
    assert_eq!(explain(&run.record), Explanation::default());
}

#[test]
fn an_addition_without_a_receipt_is_a_hazard() {
    let hazards = |with_receipt: bool| {
        let mut run = Run::new();
        let only = run.begin(0);
        run.add(only, 1, "counter");
        if with_receipt {
            run.set(only, 2, "receipt", "");
        }
        run.commit(only, Ok(()), true);
        let found = lint::lint(&run.record);
        found.iter().map(|finding| finding.name).collect::<Vec<_>>()
    };
    assert_eq!(hazards(false), ["applies-twice"]);
    assert_eq!(hazards(true), [] as [&str; 0]);
}

#[test]
fn the_rest_of_a_range_that_is_never_read_is_a_hazard() {
    let hazards = |limit: i32, again: bool| {
        let mut run = Run::new();
        let only = run.begin(0);
        let selector = |name: &str| Selector {
            key: key(name),
            or_equal: false,
            offset: 1,
        };
        let call = |begin: &str| {
            Call::GetRange(RangeCall {
                begin: selector(begin),
                end: selector("b"),
                limit,
                target_bytes: 0,
                mode: 0,
                iteration: 1,
                snapshot: false,
                reverse: false,
            })
        };
        let rows = |name: &str, more| Answer::Rows {
            rows: vec![(key(name), key("value"))],
            count: 1,
            more,
        };
        run.call(only, 1, call("a"), rows("a1", true));
        if again {
            run.call(only, 1, call("a1\0"), rows("a2", false));
        }
        let found = lint::lint(&run.record);
        found.iter().map(|finding| finding.name).collect::<Vec<_>>()
    };
    assert_eq!(hazards(0, false), ["range-not-continued"]);
    assert_eq!(hazards(0, true), [] as [&str; 0]);
    assert_eq!(hazards(1, false), [] as [&str; 0], "as many as were wanted");
}

#[test]
fn a_record_without_anything_in_it_is_explained_by_nothing() {
    let record = Record::default();
    assert_eq!(explain(&record), Explanation::default());
    assert!(text::text(&record, &explain(&record), 100).contains("No finding"));
}

/// Each of two clients commits, and makes a key of the version that it is given.
fn key_of_a_version(versions: [i64; 2]) -> Explanation {
    let mut run = Run::new();
    for (client, version) in (0..).zip(versions) {
        let draft = run.begin(client);
        run.set(draft, 1, &format!("draft {client}"), "text");
        run.commit(draft, Ok(()), true);
        let landed = run.record.committed.last_mut().expect("it landed");
        landed.version = version;
    }
    for (client, version) in (0..).zip(versions) {
        let entry = run.begin(client);
        let value = format!("of client {client}");
        run.set(entry, 2, &format!("log/{version:020}"), &value);
        run.commit(entry, Ok(()), true);
    }
    run.fails_after("1 entry of 2", |run| {
        let check = run.begin(0);
        run.record.attempts[check as usize].phase = Some(2);
        run.range(check, ["log/", "log0"], &[&format!("log/{:020}", 1234)]);
    })
}

#[test]
fn a_version_that_two_commits_of_a_batch_share_is_no_unique_key() {
    let explanation = key_of_a_version([1234, 1234]);
    assert_eq!(names(&explanation), ["same-commit-version"]);
    let sentence = &explanation.findings[0].sentence;
    assert!(sentence.contains("src/lib.rs:2"), "{sentence}");
    assert_eq!(names(&key_of_a_version([1234, 1244])), [] as [&str; 0]);
}

/// Client 1 raises a counter in digits; its first commit is lost with an unknown result, and its
/// retry does nothing any more.
fn taken_for_done(message: &str) -> Explanation {
    let mut run = Run::new();
    let first = run.begin(1);
    run.get(first, 1, "clicks", false, None);
    run.set(first, 2, "clicks", "1");
    run.commit(first, Err(1020), false);
    let second = run.retry(first, 1020);
    run.get(second, 1, "clicks", false, None);
    run.set(second, 2, "clicks", "1");
    run.commit(second, Err(1021), false);
    let third = run.retry(second, 1021);
    run.commit(third, Ok(()), true);
    let other = run.begin(0);
    run.get(other, 1, "clicks", false, None);
    run.set(other, 2, "clicks", "1");
    run.commit(other, Ok(()), true);
    run.fails(message, &[("clicks", Some("1"))])
}

#[test]
fn a_number_in_digits_that_is_too_small_shows_what_was_taken_for_done() {
    let explanation = taken_for_done("1 clicks of 2");
    assert_eq!(names(&explanation), ["unknown-result-taken-for-done"]);
    let sentence = &explanation.findings[0].sentence;
    assert!(sentence.contains("in attempt 2"), "{sentence}");
    assert_eq!(names(&taken_for_done("1 clicks of 0")), [] as [&str; 0]);
}

#[test]
fn a_key_that_each_attempt_makes_anew_was_not_left_out() {
    let mut run = Run::new();
    let mut post = run.begin(1);
    for (key, error, lands) in [("post a7", 1007, false), ("post 3c", 1021, true)] {
        run.set(post, 2, key, "text 8");
        run.commit(post, Err(error), lands);
        post = run.retry(post, error);
    }
    run.set(post, 2, "post f4", "text 8");
    run.commit(post, Ok(()), true);
    let explanation = run.fails_after("\"text 8\" was posted twice", |run| {
        let check = run.begin(0);
        run.record.attempts[check as usize].phase = Some(2);
        run.range(check, ["post ", "post~"], &["post 3c", "post f4"]);
    });
    assert_eq!(names(&explanation), ["retry-after-unknown-result"]);
}

#[test]
fn two_numbers_with_the_same_digits_are_not_the_same_content() {
    for (one, two, expected) in [
        ("137100", "137001", &[][..]),
        ("a, b, c", "b, c, a", &["order-of-the-process"]),
    ] {
        let mut run = Run::new();
        for (client, value) in [(0, one), (1, two)] {
            let write = run.begin(client);
            run.set(write, 2, "document", value);
            run.commit(write, Ok(()), true);
        }
        let explanation = run.fails("it is of the past", &[("document", Some(two))]);
        let mut found = names(&explanation);
        found.retain(|name| *name != "key-of-two-clients");
        assert_eq!(found, expected);
    }
}

/// Two clients read the row of an outbox, send what it says, and clear it; the second one may look
/// again before it sends.
fn sent_by_two(looks_again: bool) -> Explanation {
    let mut run = Run::new();
    let setup = run.begin(0);
    run.set(setup, 1, "outbox 7", "mail");
    run.commit(setup, Ok(()), true);
    for client in [0, 1] {
        let read = run.begin(client);
        run.range(read, ["outbox ", "outbox~"], &["outbox 7"]);
        run.commit(read, Ok(()), false);
    }
    for client in [0, 1] {
        let send = run.begin(client);
        run.add(send, 3, "sent 7");
        run.commit(send, Ok(()), true);
    }
    for client in [0, 1] {
        let clear = run.begin(client);
        if looks_again {
            let there = (client == 0).then_some("mail");
            run.get(clear, 4, "outbox 7", false, there);
        }
        run.clears(clear, 5, "outbox 7");
        run.commit(clear, Ok(()), true);
    }
    run.fails("7 was sent twice", &[("sent 7", Some("2"))])
}

#[test]
fn a_row_that_two_clients_have_worked_on_before_either_cleared_it_is_found() {
    let explanation = sent_by_two(false);
    assert_eq!(names(&explanation), ["split-read-and-write"]);
    let sentence = &explanation.findings[0].sentence;
    assert!(
        sentence.contains("outbox 7") && sentence.contains("sent 7"),
        "{sentence}"
    );
    assert_eq!(names(&sent_by_two(true)), [] as [&str; 0]);
}

/// Client 0 writes two keys in two transactions, by two lines, and client 1 changes the first in
/// between.
fn in_two_transactions(first: &str, second: &str) -> Explanation {
    let mut run = Run::new();
    let one = run.begin(0);
    run.get(one, 1, first, false, None);
    run.set(one, 2, first, "red");
    run.commit(one, Ok(()), true);
    let other = run.begin(1);
    run.get(other, 1, first, false, Some("red"));
    run.set(other, 3, first, "blue");
    run.commit(other, Ok(()), true);
    let two = run.begin(0);
    run.set(two, 4, second, "yes");
    run.commit(two, Ok(()), true);
    let seen = [(first, Some("blue")), (second, Some("yes"))];
    run.fails("they do not fit together", &seen)
}

#[test]
fn rows_of_two_ids_are_not_halves_of_one_thing() {
    for (first, second, expected) in [
        ("record 3", "index 3", &["split-transaction"][..]),
        ("record 3", "index 4", &[]),
        ("record 3", "record 4", &[]),
        ("balance", "audit", &["split-transaction"]),
    ] {
        let explanation = in_two_transactions(first, second);
        assert_eq!(names(&explanation), expected, "{first}, {second}");
    }
}
