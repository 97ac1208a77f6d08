//! Where trace events go: to a file when a run is recorded, and always through a counter.
//!
//! A passing seed writes nothing: what is kept of an unrecorded run is how many errors it logged, a
//! fingerprint of everything logged, and the last few events that matter, for a report. A recorded
//! run writes each event to its file at once, so that a workload which takes the process down still
//! leaves its trace.

use super::{Event, Format, Severity};
use fnv::FnvHasher;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Write};
use std::path::Path;
use std::rc::Rc;

/// Collects the events of one run. Cheap to clone; lives on one thread.
#[derive(Clone, Default)]
pub struct Log {
    inner: Rc<RefCell<Inner>>,
}

/// How many warnings and errors are kept for a report.
const NOTABLE_MAX: usize = 24;

#[derive(Default)]
struct Inner {
    file: Option<(File, Format)>,
    /// Why an event could not be written.
    refused: Option<io::Error>,
    errors: u64,
    events: u64,
    counts: BTreeMap<String, u64>,
    notable: Vec<Event>,
    fingerprint: Fingerprint,
}

impl Log {
    /// Starts writing to a file, with the format's header.
    pub fn record_to(&self, path: &Path, format: Format) -> io::Result<()> {
        let mut file = File::create(path)?;
        file.write_all(format.header().as_bytes())?;
        self.inner.borrow_mut().file = Some((file, format));
        Ok(())
    }

    /// Takes an event: escapes, cuts, counts it, and writes it when the run is recorded. Returns
    /// the severity it was logged with: an event that is too large becomes an error.
    pub fn trace(&self, event: Event) -> Severity {
        let event = event.sealed();
        let severity = event.severity;
        let inner = &mut *self.inner.borrow_mut();
        inner.events += 1;
        *inner.counts.entry(event.kind.clone()).or_default() += 1;
        inner.fingerprint.add_event(&event);
        if let Some((file, format)) = &mut inner.file {
            // A full disk must not change what the simulation does; `finish` reports it.
            let written = file.write_all(format.line(&event).as_bytes());
            inner.refused = inner.refused.take().or(written.err());
        }
        if event.severity == Severity::Error {
            inner.errors += 1;
        }
        if event.severity >= Severity::WarnAlways {
            // The first ones show the cause, the last ones the end.
            if inner.notable.len() == NOTABLE_MAX {
                inner.notable.remove(NOTABLE_MAX / 2);
            }
            inner.notable.push(event);
        }
        severity
    }

    /// Mixes something other than an event into the fingerprint: a draw, a call, a result.
    pub fn mix(&self, word: u64) {
        self.inner.borrow_mut().fingerprint.add(word);
    }

    /// How many errors were logged.
    pub fn errors(&self) -> u64 {
        self.inner.borrow().errors
    }

    /// How many events of each type were logged.
    pub fn counts(&self) -> BTreeMap<String, u64> {
        self.inner.borrow().counts.clone()
    }

    /// The first and the last warnings and errors.
    pub fn notable(&self) -> Vec<Event> {
        self.inner.borrow().notable.clone()
    }

    /// A number that is equal for two runs that logged the same.
    pub fn fingerprint(&self) -> u64 {
        self.inner.borrow().fingerprint.0.finish()
    }

    /// Writes the format's footer and closes the file. Fails if an event is missing in it.
    pub fn finish(&self) -> io::Result<()> {
        let mut inner = self.inner.borrow_mut();
        let Some((mut file, format)) = inner.file.take() else {
            return Ok(());
        };
        match inner.refused.take() {
            Some(error) => Err(error),
            None => file.write_all(format.footer().as_bytes()),
        }
    }
}

/// FNV-1a: not for security, only to notice that two runs differ.
#[derive(Default)]
struct Fingerprint(FnvHasher);

impl Fingerprint {
    fn add(&mut self, word: u64) {
        self.0.write(&word.to_le_bytes());
    }

    fn add_event(&mut self, event: &Event) {
        self.add(event.time.to_bits());
        self.add(u64::from(event.severity.number()));
        self.0.write(event.kind.as_bytes());
        self.0.write(event.machine.as_bytes());
        for (key, value) in &event.details {
            self.0.write(key.as_bytes());
            self.0.write(value.as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_histories_have_equal_fingerprints_and_others_do_not() {
        let run = |value: &str| {
            let log = Log::default();
            log.trace(Event::new(Severity::Info, 1.0, "A").detail("K", value));
            log.mix(7);
            log.fingerprint()
        };
        assert_eq!(run("x"), run("x"));
        assert_ne!(run("x"), run("y"));
        assert_eq!(run("x"), 0xa152_a044_96ee_155b, "the same in every release");
    }

    #[test]
    fn errors_are_counted_and_kept() {
        let log = Log::default();
        log.trace(Event::new(Severity::Info, 1.0, "Quiet"));
        log.trace(Event::new(Severity::Error, 2.0, "Loud"));
        assert_eq!(log.errors(), 1);
        assert_eq!(log.notable().len(), 1);
        assert_eq!(log.counts()["Quiet"], 1);
    }
}
