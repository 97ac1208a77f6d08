//! The deaths of clients, as the crate `shaketable` traces them.
//!
//! That crate lets a client die, and does not know on which line. The record does: the attempts
//! that a client had open end as it dies, unheard, and the last operation of the newest is where it
//! waited.

use crate::verdict::Death;
use shaketable_record::{End, Record};
use std::cell::RefCell;

#[derive(Default)]
pub(super) struct Deaths(RefCell<Vec<Death>>);

impl Deaths {
    /// Looks at an event of a workload.
    pub(super) fn note(&self, client: u32, time: f64, name: &str, details: &[(String, String)]) {
        if name != "WorkloadCrashed" {
            return;
        }
        let detail = |key: &str| {
            let found = details.iter().find(|(name, _)| name == key);
            found.map_or("", |(_, value)| value.as_str())
        };
        self.0.borrow_mut().push(Death {
            client,
            time,
            moment: detail("At").to_owned(),
            down_seconds: detail("DownSeconds").parse().unwrap_or(0.0),
            place: None,
        });
    }

    /// How many there were.
    pub(super) fn count(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    /// All of them.
    pub(super) fn all(&self) -> Vec<Death> {
        self.0.borrow().clone()
    }
}

/// Looks up where in the code under test each client died.
pub(super) fn add_places(deaths: &mut [Death], record: &Record) {
    // A client that lives again at once may die again at once: each such death has one attempt.
    let mut taken = 0;
    for index in 0..deaths.len() {
        let (client, time) = (deaths[index].client, deaths[index].time);
        let is_same = |other: &Death| other.client == client && other.time == time;
        let is_last = !deaths[index + 1..].iter().any(is_same);
        let open = (taken..).zip(record.attempts.iter().skip(taken));
        let mut open = open.filter(|(_, attempt)| {
            attempt.client == Some(client)
                && attempt.ended == Some(time)
                && matches!(attempt.end, End::Dropped | End::DroppedInCommit)
        });
        let died = if is_last { open.last() } else { open.next() };
        taken = match died {
            Some((attempt, _)) if !is_last => attempt + 1,
            _ => 0,
        };
        let Some((attempt, _)) = died else {
            continue;
        };
        let mut operations = record.operations.iter().rev();
        let last = operations.find(|operation| operation.attempt as usize == attempt);
        let place = last.and_then(|operation| operation.place);
        deaths[index].place = place.map(|place| {
            let place = &record.places[place as usize];
            format!("{}:{}", place.file, place.line)
        });
    }
}
