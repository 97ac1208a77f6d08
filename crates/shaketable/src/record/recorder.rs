//! Which call belongs to which attempt, and when an attempt is over.
//!
//! An attempt begins with its first call. It ends when its commit is answered, when `on_error`
//! accepts its error (the next call then begins another attempt of the same transaction), with a
//! reset, or when its handle is destroyed. After a commit or a reset the handle stands for another
//! transaction.

use super::functions;
use crate::context::{Severity, WorkloadContext};
use crate::executor::scope::Scope;
use crate::phase::{Phase, PhaseObserver};
use crate::stack::Library;
use foundationdb_sys::{FDBFuture, FDBTransaction};
use shaketable_record::seen::{
    AttemptName, EVENT, Line, NUMBER, PART, Seen, Stack, TEXT, WORKLOAD, pieces, to_text,
};
use shaketable_record::{Answer, Call, End};
use std::cell::RefCell;
use std::collections::BTreeMap;

thread_local! {
    static RECORDER: RefCell<Recorder> = RefCell::default();
}

/// How many stacks are told. A program has a few hundred lines that call the database; one that
/// calls it at every depth of a recursion has no end of them.
const STACKS_MAX: usize = 4096;

/// A call that was noted.
#[derive(Clone)]
pub(super) struct Ticket {
    context: WorkloadContext,
    handle: usize,
    of: AttemptName,
    sequence: u64,
    asked: f64,
    /// Where it was asked for, as the number of a stack that was told.
    stack: Option<u32>,
    pub(super) call: Call,
}

#[derive(Default)]
struct Recorder {
    /// The transactions that exist, by the addresses of their handles.
    live: BTreeMap<usize, Live>,
    /// The calls that wait for an answer, by the addresses of their futures.
    awaited: BTreeMap<usize, Ticket>,
    transactions: u32,
    operations: u64,
    lines: u64,
    /// The stacks that were told, for each workload, with their numbers.
    stacks: BTreeMap<(String, Vec<u64>), u32>,
    /// What is to be traced when the recorder is not borrowed.
    out: Vec<(WorkloadContext, Seen)>,
}

struct Live {
    context: WorkloadContext,
    phase: Phase,
    transaction: u32,
    /// The number of the last attempt, from 1; 0 before the first.
    number: u32,
    retries: Option<i32>,
    attempt: Option<Open>,
}

/// An attempt that is under way.
struct Open {
    begun: f64,
    retries: Option<i32>,
    end: Option<End>,
    is_committing: bool,
    is_version_asked: bool,
}

/// A phase begins.
pub(crate) fn phase_begins(context: &WorkloadContext, phase: Phase) {
    functions::keep();
    let (phase, time) = (phase.as_str().to_owned(), context.now());
    with(|recorder| recorder.tell(context, Seen::Begun { phase, time }));
}

/// A phase has ended.
pub(crate) fn phase_ended(
    context: &WorkloadContext,
    phase: Phase,
    passed: bool,
    error: Option<String>,
) {
    let (phase, time) = (phase.as_str().to_owned(), context.now());
    with(|recorder| {
        recorder.tell(
            context,
            Seen::Ended {
                phase,
                time,
                passed,
                error,
            },
        );
    });
}

/// A call is made. None if it does not come from a workload, or begins nothing.
pub(super) fn note(
    transaction: *mut FDBTransaction,
    call: impl FnOnce() -> Call,
) -> Option<Ticket> {
    let current = Scope::current().and_then(|scope| {
        let observer = scope.observer::<PhaseObserver>()?;
        Some((observer.context()?.clone(), observer.phase()))
    });
    let stack = Library::own().map(Library::stack).unwrap_or_default();
    with(|recorder| recorder.note(transaction.expose_provenance(), current, call(), stack))?
}

/// The answer of a call will be in this future.
pub(super) fn awaits(future: *mut FDBFuture, ticket: Ticket) {
    with(|recorder| recorder.awaited.insert(future.addr(), ticket));
}

/// The call whose answer is in this future, if it was not heard before.
pub(super) fn arrived(future: *mut FDBFuture) -> Option<Ticket> {
    with(|recorder| recorder.awaited.remove(&future.addr()))?
}

/// A call was answered.
pub(super) fn answer(ticket: &Ticket, answer: Answer, committed: Option<i64>) {
    let now = ticket.context.now();
    with(|recorder| recorder.answer(ticket, answer, committed, now));
}

/// The version that an attempt reads at is known.
pub(super) fn read_version(ticket: &Ticket, version: i64) {
    let of = ticket.of;
    with(|recorder| recorder.tell(&ticket.context, Seen::ReadVersion { of, version }));
}

/// Whether the version that the attempt of a call reads at should be asked for. Says so once.
pub(super) fn wants_read_version(ticket: &Ticket) -> bool {
    let asked = with(|recorder| {
        let attempt = recorder.current(ticket)?.attempt.as_mut()?;
        Some(!std::mem::replace(&mut attempt.is_version_asked, true))
    });
    asked.flatten().unwrap_or(false)
}

/// The handle of a call, if it still stands for the same attempt.
pub(super) fn transaction_of(ticket: &Ticket) -> Option<*mut FDBTransaction> {
    with(|recorder| recorder.current(ticket).map(|_| ()))??;
    Some(std::ptr::with_exposed_provenance_mut(ticket.handle))
}

/// A handle is destroyed.
pub(super) fn destroyed(transaction: *mut FDBTransaction) {
    with(|recorder| {
        let Some(live) = recorder.live.remove(&transaction.addr()) else {
            return;
        };
        let now = live.context.now();
        recorder.close(live, None, now);
    });
}

/// Does something with the recorder, and then traces what it has to tell. None if the thread is at
/// its end.
fn with<T>(body: impl FnOnce(&mut Recorder) -> T) -> Option<T> {
    let (result, lines, first) = RECORDER
        .try_with(|recorder| {
            let mut recorder = recorder.try_borrow_mut().ok()?;
            let result = body(&mut recorder);
            let lines = std::mem::take(&mut recorder.out);
            let first = recorder.lines;
            recorder.lines += lines.len() as u64;
            Some((result, lines, first))
        })
        .ok()??;
    for (number, (context, seen)) in (first..).zip(lines) {
        trace(&context, number, seen);
    }
    Some(result)
}

/// Writes a line into the trace.
fn trace(context: &WorkloadContext, number: u64, seen: Seen) {
    if !context.is_alive() {
        return;
    }
    let text = to_text(&Line {
        client: context.client_id() as u32,
        workload: context.workload().to_owned(),
        seen,
    });
    let events = pieces(&text);
    for (index, event) in (1..).zip(&events) {
        let mut details = vec![
            (WORKLOAD.to_owned(), context.workload().to_owned()),
            (NUMBER.to_owned(), number.to_string()),
            (PART.to_owned(), format!("{index}/{}", events.len())),
        ];
        let texts = event.iter().enumerate();
        details.extend(texts.map(|(index, text)| (format!("{TEXT}{index}"), (*text).to_owned())));
        context.trace(Severity::Info, EVENT, &details);
    }
}

impl Recorder {
    fn tell(&mut self, context: &WorkloadContext, seen: Seen) {
        self.out.push((context.clone(), seen));
    }

    fn note(
        &mut self,
        handle: usize,
        current: Option<(WorkloadContext, Phase)>,
        call: Call,
        stack: Vec<u64>,
    ) -> Option<Ticket> {
        let ends = match call {
            Call::Reset => Some(End::Reset),
            Call::Cancel => Some(End::Cancelled),
            _ => None,
        };
        let is_open = self
            .live
            .get(&handle)
            .is_some_and(|live| live.attempt.is_some());
        // A reset after a commit begins nothing.
        if ends.is_some() && !is_open {
            return None;
        }
        if !self.live.contains_key(&handle) {
            let (context, phase) = current?;
            let live = Live {
                context,
                phase,
                transaction: self.transactions,
                number: 0,
                retries: None,
                attempt: None,
            };
            self.transactions += 1;
            self.live.insert(handle, live);
        }
        let live = self.live.get_mut(&handle)?;
        let now = live.context.now();
        if live.attempt.is_none() {
            live.number += 1;
            live.attempt = Some(Open {
                begun: now,
                retries: live.retries.take(),
                end: None,
                is_committing: false,
                is_version_asked: false,
            });
        }
        let attempt = live.attempt.as_mut()?;
        let context = live.context.clone();
        let of = AttemptName {
            transaction: live.transaction,
            number: live.number,
        };
        match call {
            Call::Commit => attempt.is_committing = true,
            Call::GetReadVersion | Call::SetReadVersion(_) => attempt.is_version_asked = true,
            _ => {}
        }
        let ticket = Ticket {
            stack: self.stack(&context, stack),
            context,
            handle,
            of,
            sequence: self.operations,
            asked: now,
            call,
        };
        self.operations += 1;
        if let Call::SetReadVersion(version) = ticket.call {
            let of = ticket.of;
            self.tell(&ticket.context, Seen::ReadVersion { of, version });
        }
        if !has_answer(&ticket.call) {
            self.tell_operation(&ticket, Answer::Nothing, None);
        }
        match ends {
            Some(End::Reset) => {
                let live = self.live.remove(&handle)?;
                self.close(live, Some(End::Reset), now);
            }
            Some(end) => self.end(&ticket, end),
            None => {}
        }
        Some(ticket)
    }

    /// The number of a stack, which is told when it is met first.
    fn stack(&mut self, context: &WorkloadContext, addresses: Vec<u64>) -> Option<u32> {
        let library = Library::own()?;
        let number = u32::try_from(self.stacks.len()).ok()?;
        let key = (context.workload().to_owned(), addresses);
        if let Some(known) = self.stacks.get(&key) {
            return Some(*known);
        }
        if key.1.is_empty() || self.stacks.len() == STACKS_MAX {
            return None;
        }
        let stack = Stack {
            library: library.path.clone(),
            build_id: library.build_id.clone(),
            addresses: key.1.clone(),
        };
        self.stacks.insert(key, number);
        self.tell(context, Seen::Stack { number, stack });
        Some(number)
    }

    fn answer(&mut self, ticket: &Ticket, answer: Answer, committed: Option<i64>, now: f64) {
        self.tell_operation(ticket, answer.clone(), Some(now));
        match (&ticket.call, answer) {
            (Call::GetReadVersion, Answer::Version(version)) => {
                let of = ticket.of;
                self.tell(&ticket.context, Seen::ReadVersion { of, version });
            }
            (Call::OnError(error), Answer::Nothing) => {
                let Some(live) = self.current(ticket) else {
                    return;
                };
                live.retries = Some(*error);
                let attempt = live.attempt.take();
                let seen = attempt.map(|open| live.ended(&open, End::Retried(*error), None, now));
                self.out
                    .extend(seen.map(|seen| (ticket.context.clone(), seen)));
            }
            (Call::Commit, Answer::Nothing) => {
                let Some(live) = self.current(ticket) else {
                    return;
                };
                let attempt = live.attempt.take();
                let seen = attempt.map(|open| live.ended(&open, End::Committed, committed, now));
                self.out
                    .extend(seen.map(|seen| (ticket.context.clone(), seen)));
                // What the handle does next is another transaction.
                self.live.remove(&ticket.handle);
            }
            (Call::Commit, Answer::Error(error)) => self.end(ticket, End::Failed(error)),
            (Call::Commit, _) => self.end(ticket, End::DroppedInCommit),
            _ => {}
        }
    }

    /// The transaction of a call, if its handle still stands for the same attempt.
    fn current(&mut self, ticket: &Ticket) -> Option<&mut Live> {
        let live = self.live.get_mut(&ticket.handle)?;
        let of = ticket.of;
        let is_same = live.transaction == of.transaction && live.number == of.number;
        (is_same && live.attempt.is_some()).then_some(live)
    }

    /// An attempt has ended, unless it had before; its handle has not.
    fn end(&mut self, ticket: &Ticket, end: End) {
        if let Some(attempt) = self.current(ticket).and_then(|live| live.attempt.as_mut()) {
            attempt.end.get_or_insert(end);
        }
    }

    /// A transaction is over.
    fn close(&mut self, mut live: Live, end: Option<End>, now: f64) {
        let Some(attempt) = live.attempt.take() else {
            return;
        };
        let end = attempt.end.or(end).unwrap_or(match attempt.is_committing {
            true => End::DroppedInCommit,
            false => End::Dropped,
        });
        let seen = live.ended(&attempt, end, None, now);
        self.out.push((live.context, seen));
    }

    fn tell_operation(&mut self, ticket: &Ticket, answer: Answer, answered: Option<f64>) {
        self.tell(
            &ticket.context,
            Seen::Operation {
                of: ticket.of,
                sequence: ticket.sequence,
                asked: ticket.asked,
                answered,
                stack: ticket.stack,
                call: ticket.call.clone(),
                answer,
            },
        );
    }
}

impl Live {
    fn ended(&self, attempt: &Open, end: End, committed: Option<i64>, now: f64) -> Seen {
        Seen::Attempt {
            of: AttemptName {
                transaction: self.transaction,
                number: self.number,
            },
            phase: self.phase.as_str().to_owned(),
            begun: attempt.begun,
            ended: now,
            retries: attempt.retries,
            end,
            committed,
        }
    }
}

/// Whether a call has an answer to wait for.
fn has_answer(call: &Call) -> bool {
    matches!(
        call,
        Call::GetReadVersion
            | Call::Get { .. }
            | Call::GetKey { .. }
            | Call::GetRange(_)
            | Call::GetMappedRange(_)
            | Call::Watch { .. }
            | Call::Commit
            | Call::OnError(_)
    )
}
