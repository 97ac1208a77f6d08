//! An operation that waits for its answer.
//!
//! It goes with the future of the call, which is answered or given up; the first of these counts.
//! That of a commit also notes what is sent, at the moment it is sent.

use super::{Noted, Origin, Position, Recorder};
use crate::universe::Universe;
use crate::value::Value;
use shaketable_cluster::client::Transaction;
use shaketable_cluster::error::Error;
use shaketable_record::Answer;
use std::cell::RefCell;
use std::rc::Rc;

/// An operation that waits for its answer.
#[derive(Clone)]
pub(crate) struct Asked {
    recorder: Rc<RefCell<Recorder>>,
    slot: usize,
    position: Position,
}

impl Asked {
    /// The answer is there.
    pub(crate) fn answer(&self, outcome: &Result<Value, Error>, universe: Option<&Universe>) {
        let read_version = universe.and_then(|universe| {
            universe.objects(|objects| objects.transactions.get(self.slot)?.known_read_version())?
        });
        let mut recorder = self.recorder.borrow_mut();
        let answer = recorder.keep.answer(outcome);
        recorder.answer(self.slot, self.position, answer, read_version);
    }

    /// The future was given up.
    pub(crate) fn drop_future(&self) {
        let mut recorder = self.recorder.borrow_mut();
        recorder.answer(self.slot, self.position, Answer::Dropped, None);
    }

    /// Notes what the commit sends, when it is sent.
    pub(crate) fn follow_commit(&self, transaction: &Transaction) {
        let (recorder, position) = (self.recorder.clone(), self.position);
        transaction.note_commit(position.attempt, move |sent| {
            recorder.borrow_mut().sent(position, sent);
        });
    }
}

impl Recorder {
    /// A call is being carried out.
    pub(crate) fn ask(
        this: &Rc<RefCell<Recorder>>,
        slot: usize,
        origin: Origin,
        transaction: &Transaction,
        noted: Noted,
    ) -> Option<Asked> {
        let position =
            this.borrow_mut()
                .note(slot, origin, transaction.known_read_version(), noted)?;
        Some(Asked {
            recorder: this.clone(),
            slot,
            position,
        })
    }
}
