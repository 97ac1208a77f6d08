//! Counts what the database answers the clients of this library, and how long it takes.
//!
//! Two hosts can be compared only by what both report in the same way. A host's own figures are not
//! that: fdbserver keeps none of its workloads' calls. So the library counts them itself, where
//! they pass: it answers the functions of libfdb_c that ask the database for something, under their
//! own names but hidden (see [`hidden`](crate::hidden)), and passes every call on. Nothing is added
//! to what the cluster is asked, so a run that is measured is the same run.
//!
//! * An answer is counted when the client hears it: when it asks the future for its error, which
//!   the crate `foundationdb` does first. A future that is destroyed unheard is not counted.
//! * The time of an answer is counted if it is no error and took any: a commit of nothing, or a
//!   read of what the transaction wrote itself, asks no server.
//! * At the end of each phase of a client, what all clients of the process have counted since the
//!   last time goes to the trace as one event, `WorkloadCalls`, and for each place in the code that
//!   calls the database, by its [`stack`](crate::stack), as one `WorkloadLine`.
//!
//! A host that has no use for it says `off` when it is asked for the option `shaketableMeasure`,
//! and one that knows the lines itself says `on`. Shaketable's own says `off`, except in a
//! comparison.

#[cfg(not(feature = "record"))]
mod functions;

use crate::context::{Severity, WorkloadContext};
use crate::details;
use crate::stack::Library;
use foundationdb_sys::FDBFuture;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::fmt::Write;

/// The calls that are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Call {
    Commit,
    Read,
    RangeRead,
    ReadVersion,
    Watch,
}

impl Call {
    /// Its name in the trace.
    fn name(self) -> &'static str {
        match self {
            Call::Commit => "Commit",
            Call::Read => "Read",
            Call::RangeRead => "RangeRead",
            Call::ReadVersion => "ReadVersion",
            Call::Watch => "Watch",
        }
    }
}

thread_local! {
    /// Whether a workload of this thread is measured: asked at every call.
    static IS_ON: Cell<bool> = const { Cell::new(false) };
    /// Whether the places are told that calls come from.
    static TELLS_LINES: Cell<bool> = const { Cell::new(false) };
    static COUNTS: RefCell<Counts> = const { RefCell::new(Counts::new()) };
}

struct Counts {
    /// The calls that wait for an answer, by the addresses of their futures.
    awaited: BTreeMap<usize, Asked>,
    calls: BTreeMap<Call, Answers>,
    /// What became of the calls of one kind from one place, by the code.
    lines: BTreeMap<(Vec<u64>, Call), BTreeMap<c_int, u64>>,
}

struct Asked {
    call: Call,
    stack: Vec<u64>,
    context: WorkloadContext,
    time: f64,
}

/// What became of the calls of one kind.
#[derive(Default)]
struct Answers {
    /// By the code; 0 is success.
    codes: BTreeMap<c_int, u64>,
    /// How many took a time in which [`bucket`].
    times: BTreeMap<u32, u64>,
}

impl Counts {
    const fn new() -> Counts {
        Counts {
            awaited: BTreeMap::new(),
            calls: BTreeMap::new(),
            lines: BTreeMap::new(),
        }
    }
}

/// How many places are told apart. A program has a few hundred lines that call the database; one
/// that calls it at every depth of a recursion has no end of them.
const LINES_MAX: usize = 1024;

/// From now on the calls of this thread are counted, unless the host's answer is `off`.
pub(crate) fn begin(answer: &str) {
    if answer == "off" {
        return;
    }
    #[cfg(not(feature = "record"))]
    functions::keep();
    IS_ON.set(true);
    TELLS_LINES.set(answer != "on");
}

/// The answer of a call will be in this future.
pub(crate) fn asked(call: Call, future: *mut FDBFuture) {
    if !IS_ON.get() {
        return;
    }
    let Some(context) = WorkloadContext::current() else {
        return;
    };
    let stack = match Library::own().filter(|_| TELLS_LINES.get()) {
        Some(library) => library.stack(),
        None => Vec::new(),
    };
    let asked = Asked {
        call,
        stack,
        time: context.now(),
        context,
    };
    with(|counts| counts.awaited.insert(future.addr(), asked));
}

/// The client hears an answer.
pub(crate) fn heard(future: *mut FDBFuture, error: c_int) {
    if !IS_ON.get() {
        return;
    }
    let Some(Some(asked)) = with(|counts| counts.awaited.remove(&future.addr())) else {
        return;
    };
    let seconds = asked.context.now() - asked.time;
    with(|counts| {
        let answers = counts.calls.entry(asked.call).or_default();
        *answers.codes.entry(error).or_default() += 1;
        if error == 0
            && let Some(bucket) = bucket(seconds)
        {
            *answers.times.entry(bucket).or_default() += 1;
        }
        let place = (asked.stack, asked.call);
        let is_told = !place.0.is_empty()
            && (counts.lines.len() < LINES_MAX || counts.lines.contains_key(&place));
        if is_told {
            let codes = counts.lines.entry(place).or_default();
            *codes.entry(error).or_default() += 1;
        }
    });
}

/// A future is destroyed; the next one may have its address.
pub(crate) fn destroyed(future: *mut FDBFuture) {
    if IS_ON.get() {
        with(|counts| counts.awaited.remove(&future.addr()));
    }
}

/// Writes what was counted since the last time to the trace.
pub(crate) fn tell(context: &WorkloadContext) {
    if !IS_ON.get() {
        return;
    }
    let counted = with(|counts| {
        let calls = std::mem::take(&mut counts.calls);
        (calls, std::mem::take(&mut counts.lines))
    });
    let (calls, lines) = counted.unwrap_or_default();
    if calls.is_empty() {
        return;
    }
    let mut details = Vec::new();
    for (call, answers) in calls {
        let name = call.name();
        details.push((name.to_owned(), pairs(&answers.codes)));
        if !answers.times.is_empty() {
            details.push((format!("{name}Times"), pairs(&answers.times)));
        }
    }
    context.trace(Severity::Info, "WorkloadCalls", &details);
    let Some(library) = Library::own() else {
        return;
    };
    for ((stack, call), codes) in lines {
        let stack: Vec<String> = stack.iter().map(|address| format!("{address:x}")).collect();
        let details = details![
            "Library" => library.path,
            "BuildId" => library.build_id,
            "Stack" => stack.join(" "),
            "Call" => call.name(),
            "Codes" => pairs(&codes),
        ];
        context.trace(Severity::Info, "WorkloadLine", details);
    }
}

/// As `0=12 1020=3`.
fn pairs<K: std::fmt::Display>(counts: &BTreeMap<K, u64>) -> String {
    let mut text = String::new();
    for (key, count) in counts {
        let space = if text.is_empty() { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{space}{key}={count}");
    }
    text
}

/// The bucket of a time: four to each doubling of microseconds. None if it took none.
fn bucket(seconds: f64) -> Option<u32> {
    let micros = (seconds * 1e6).round() as u64;
    let doublings = micros.checked_ilog2()?;
    let quarter = (u128::from(micros) << 2 >> doublings) & 3;
    Some(4 * doublings + quarter as u32)
}

/// Does something with the counts. None if the thread is at its end, or they are in use.
fn with<T>(body: impl FnOnce(&mut Counts) -> T) -> Option<T> {
    let result = COUNTS.try_with(|counts| Some(body(&mut *counts.try_borrow_mut().ok()?)));
    result.ok()?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_is_a_quarter_of_a_doubling() {
        assert_eq!(bucket(0.0), None);
        assert_eq!(bucket(4e-7), None);
        assert_eq!(bucket(-1.0), None);
        let buckets = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0].map(|micros| bucket(micros / 1e6));
        assert_eq!(buckets, [0, 4, 6, 8, 9, 10, 11, 12].map(Some));
        assert_eq!(bucket(0.001), Some(39));
        assert!(bucket(f64::MAX).is_some());
    }

    #[test]
    fn counts_are_written_as_pairs() {
        assert_eq!(pairs(&BTreeMap::from([(0, 12), (1020, 3)])), "0=12 1020=3");
    }
}
