//! What is known about a panic by the time it is caught.
//!
//! Catching an unwinding panic yields its payload only; place and backtrace are visible to the
//! panic hook alone. So a hook is put in front of the existing one: on threads that run tasks it
//! records what it sees, and then calls the previous hook. A library built with `panic = "abort"`
//! has no later moment: there the hook reports, before the process ends.

use super::scope::Scope;
use super::{Failure, queue};
use std::any::Any;
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::fmt;
use std::panic::{self, PanicHookInfo};
use std::sync::Once;

/// The message of a panic, its place, and its backtrace.
///
/// ```
/// # let simulation = shaketable::Simulation::new().seeds(1).without_regressions();
/// # let _fails_because_of_the_panic = simulation.try_test(async |_db, _context| {
/// let handle = shaketable::spawn(async { panic!("out of eggs") });
/// let error = handle.await.unwrap_err();
/// let report = error.panic().expect("it panicked");
/// println!("{report}"); // out of eggs at src/lib.rs:3:38
/// # });
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PanicReport {
    message: String,
    place: Option<String>,
    backtrace: String,
}

impl PanicReport {
    /// The text given to `panic!`.
    ///
    /// ```
    /// # let simulation = shaketable::Simulation::new().seeds(1).without_regressions();
    /// # let _fails_because_of_the_panic = simulation.try_test(async |_db, _context| {
    /// let handle = shaketable::spawn(async { panic!("out of eggs") });
    /// let error = handle.await.unwrap_err();
    /// let report = error.panic().expect("it panicked");
    /// assert_eq!(report.message(), "out of eggs");
    /// # });
    /// ```
    pub fn message(&self) -> &str {
        &self.message
    }

    /// `file:line:column` of the panic, when the panic hook saw it.
    ///
    /// ```
    /// # let simulation = shaketable::Simulation::new().seeds(1).without_regressions();
    /// # let _fails_because_of_the_panic = simulation.try_test(async |_db, _context| {
    /// let handle = shaketable::spawn(async { panic!("out of eggs") });
    /// let error = handle.await.unwrap_err();
    /// let report = error.panic().expect("it panicked");
    /// assert!(report.place().is_some_and(|place| place.contains(".rs:")));
    /// # });
    /// ```
    pub fn place(&self) -> Option<&str> {
        self.place.as_deref()
    }

    /// The frames of the code that panicked, innermost first, one per line; empty when the panic
    /// hook did not see it.
    ///
    /// ```
    /// # let simulation = shaketable::Simulation::new().seeds(1).without_regressions();
    /// # let _fails_because_of_the_panic = simulation.try_test(async |_db, _context| {
    /// let handle = shaketable::spawn(async { panic!("out of eggs") });
    /// let error = handle.await.unwrap_err();
    /// let report = error.panic().expect("it panicked");
    /// assert!(!report.backtrace().is_empty());
    /// # });
    /// ```
    pub fn backtrace(&self) -> &str {
        &self.backtrace
    }

    /// The message, with what to do about it in a simulation if that is known.
    pub(crate) fn explained(&self) -> String {
        explain(&self.message)
    }

    /// The report of a panic that was just caught on this thread.
    pub(crate) fn of(payload: Box<dyn Any + Send>) -> Self {
        let message = message_of(&*payload);
        // A payload may have a destructor that panics, too.
        let _ = panic::catch_unwind(panic::AssertUnwindSafe(|| drop(payload)));
        let seen = SEEN.take().filter(|seen| seen.message == message);
        seen.unwrap_or(PanicReport {
            message,
            place: None,
            backtrace: String::new(),
        })
    }
}

impl fmt::Display for PanicReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        match &self.place {
            Some(place) => write!(f, " at {place}"),
            None => Ok(()),
        }
    }
}

thread_local! {
    static SEEN: RefCell<Option<PanicReport>> = const { RefCell::new(None) };
}

/// Puts our hook in front of the present one, once per process.
pub(super) fn install_hook() {
    static ONCE: Once = Once::new();
    if std::thread::panicking() {
        // The standard library refuses to change hooks now; the next thread will do it.
        return;
    }
    ONCE.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if queue::is_attached() {
                note(info);
            }
            previous(info);
        }));
    });
}

fn note(info: &PanicHookInfo<'_>) {
    let backtrace = Backtrace::force_capture().to_string();
    let report = PanicReport {
        message: message_of(info.payload()),
        place: info.location().map(ToString::to_string),
        backtrace: condense(&backtrace),
    };
    #[cfg(feature = "tokio")]
    let report = match super::runtime::is_own_place(report.place.as_deref()) {
        true => PanicReport {
            place: place_of_caller(&report.backtrace),
            ..report
        },
        false => report,
    };
    #[cfg(feature = "tokio")]
    if tokio::task::try_id().is_some() && is_caught_by_tokio(&backtrace) {
        // Tokio keeps it for a `JoinHandle` that may be gone.
        if let Some(scope) = Scope::current() {
            return scope.report(&Failure::Panic(report), true);
        }
    }
    if cfg!(panic = "abort") {
        // This one will not be caught, so it is reported from here.
        if let Some(scope) = Scope::current() {
            scope.report(&Failure::Panic(report.clone()), true);
        }
    }
    // A panic while the cell is borrowed could only come from this very function.
    let _ = SEEN.try_with(|seen| seen.try_borrow_mut().map(|mut seen| *seen = Some(report)));
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&'static str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "(a panic without text)".to_owned()
    }
}

/// Whether the first that catches this panic, from the inside out, is tokio's task and not code
/// that handles its own panics, or a task of ours. Without names nothing speaks against it.
#[cfg(feature = "tokio")]
fn is_caught_by_tokio(backtrace: &str) -> bool {
    let first = backtrace.lines().find_map(|line| {
        let is_by = |catcher: &str| line.contains(catcher);
        match line {
            _ if is_by("tokio::runtime::task::") => Some(true),
            _ if is_by("shaketable::executor::task::") || is_by("__rust_try") => Some(false),
            _ if is_by("catch_unwind") => Some(false),
            _ => None,
        }
    });
    first.unwrap_or(true)
}

/// The place in a condensed backtrace that is neither in a dependency nor in this crate.
#[cfg(feature = "tokio")]
pub(super) fn place_of_caller(backtrace: &str) -> Option<String> {
    let places = backtrace.lines().filter_map(|frame| {
        let (function, place) = frame.strip_suffix(')')?.rsplit_once(" (")?;
        let is_ours =
            function.contains("shaketable::executor::") || place.contains("/executor/runtime/");
        let is_foreign = place.contains("/registry/src/") || place.contains("/rustc/");
        (!is_ours && !is_foreign).then(|| place.to_owned())
    });
    places.into_iter().next()
}

/// The message of a panic, with what to do about it in a simulation if that is known.
fn explain(message: &str) -> String {
    const OUTSIDE: [&str; 2] = [
        "there is no reactor running",
        "must be called from the context of a Tokio 1.x runtime",
    ];
    let help = if OUTSIDE.iter().any(|text| message.contains(text)) {
        match cfg!(feature = "tokio") {
            true => "only setup, start and check have a tokio runtime",
            false => "enable the feature `tokio` of the crate shaketable",
        }
    } else if message.contains("can call blocking only when running on the multi-threaded") {
        "a simulation has one thread"
    } else if message.contains("Cannot start a runtime from within a runtime") {
        "a phase runs inside a tokio runtime, so await the future or spawn it"
    } else {
        return message.to_owned();
    };
    // In front, because a report cuts a long message.
    format!("{help}: {message}")
}

/// Keeps the frames between the panic machinery and the executor: `function (file:line)` per line.
pub(super) fn condense(backtrace: &str) -> String {
    let mut frames: Vec<String> = Vec::new();
    for line in backtrace.lines().map(str::trim) {
        if let Some(place) = line.strip_prefix("at ") {
            if let Some(frame) = frames.last_mut() {
                let place = place
                    .rsplit_once(':')
                    .map_or(place, |(place, _column)| place);
                frame.push_str(&format!(" ({place})"));
            }
        } else if let Some((_number, function)) = line.split_once(": ") {
            if function.contains("shaketable::executor::task::")
                || function.contains("tokio::runtime::task::")
            {
                break;
            }
            frames.push(function.to_owned());
        }
    }
    let entry = frames.iter().position(|frame| is_machinery(frame));
    let own = frames.iter().skip(entry.unwrap_or(0));
    let own: Vec<&str> = own
        .map(String::as_str)
        .skip_while(|frame| is_machinery(frame))
        .collect();
    own.join("\n")
}

/// Whether a frame only carries a panic from `panic!`, `unwrap`, `assert!`… to the hook.
fn is_machinery(frame: &str) -> bool {
    const PREFIXES: [&str; 4] = [
        "core::panicking::",
        "std::panicking::",
        "core::option::",
        "core::result::",
    ];
    let name = frame.trim_start_matches('<');
    name.contains("rust_begin_unwind")
        || name.contains("rust_end_short_backtrace")
        || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backtrace_is_condensed_to_the_frames_of_the_code_that_panicked() {
        let text = "   0: std::backtrace::Backtrace::create\n\
                    \x20            at /rustc/x/library/std/src/backtrace.rs:331:13\n\
                    \x20  1: std::panicking::begin_panic_handler\n\
                    \x20  2: core::panicking::panic_fmt\n\
                    \x20  3: atomic::Counter::bump\n\
                    \x20            at ./src/lib.rs:42:9\n\
                    \x20  4: atomic::start::{{closure}}\n\
                    \x20            at ./src/lib.rs:30:5\n\
                    \x20  5: shaketable::executor::task::cell::poll\n\
                    \x20  6: main\n";
        assert_eq!(
            condense(text),
            "atomic::Counter::bump (./src/lib.rs:42)\natomic::start::{{closure}} (./src/lib.rs:30)"
        );
    }

    #[test]
    fn library_frames_between_frames_of_the_code_are_kept() {
        let text = "   0: std::panicking::begin_panic_handler\n\
                    \x20  1: core::result::unwrap_failed\n\
                    \x20  2: <core::result::Result<u32, u8>>::unwrap\n\
                    \x20  3: layer::decode::{{closure}}\n\
                    \x20  4: core::option::Option<T>::map\n\
                    \x20  5: layer::decode\n\
                    \x20  6: shaketable::executor::task::cell::poll::{{closure}}\n";
        assert_eq!(
            condense(text),
            "layer::decode::{{closure}}\ncore::option::Option<T>::map\nlayer::decode"
        );
    }

    #[test]
    fn a_use_of_tokio_outside_its_context_is_told_what_to_do() {
        let message = "there is no reactor running, must be called from the context of a Tokio 1.x \
                       runtime";
        let report = PanicReport::of(Box::new(message));
        assert_eq!(report.message(), message);
        let help = match cfg!(feature = "tokio") {
            true => "only setup, start and check have a tokio runtime: there is no",
            false => "enable the feature `tokio` of the crate shaketable: there is no",
        };
        assert!(report.explained().contains(help), "{}", report.explained());
        assert_eq!(PanicReport::of(Box::new("lonely")).explained(), "lonely");
    }

    #[test]
    fn a_panic_the_hook_did_not_see_still_has_its_message() {
        let report = PanicReport::of(Box::new("lonely"));
        assert_eq!(report.message(), "lonely");
        assert_eq!(report.place(), None);
        assert_eq!(report.to_string(), "lonely");
    }
}
