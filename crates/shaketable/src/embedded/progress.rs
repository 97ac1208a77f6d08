//! How far the simulations of a test program are, on a terminal.
//!
//! `cargo test` says nothing while a test runs. After two seconds the right edge of the terminal's
//! current line shows how many seeds have run; it is gone when the last simulation is done. It
//! stays out of the way of the test runner, which writes at the left: the cursor is put back where
//! it was.
//!
//! Where the standard error is no terminal (in CI, under nextest, in a pipe) nothing is written.

#![expect(
    clippy::disallowed_methods,
    reason = "what a person sees while they wait is measured by their clock"
)]

use std::io::{IsTerminal, Write};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Tests that take no longer show nothing.
const QUIET_FOR: Duration = Duration::from_secs(2);
const DRAW_EVERY: Duration = Duration::from_millis(200);
/// As wide as it ever gets, so that each text covers the one before.
const WIDTH: usize = 36;

/// One simulation that is running.
pub(super) struct Progress {
    planned: u64,
    done: u64,
}

/// All simulations of this process together.
struct Shown {
    running: u32,
    done: u64,
    planned: u64,
    began: Option<Instant>,
    drawn: Option<Instant>,
}

static SHOWN: Mutex<Shown> = Mutex::new(Shown {
    running: 0,
    done: 0,
    planned: 0,
    began: None,
    drawn: None,
});

fn shown() -> MutexGuard<'static, Shown> {
    SHOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Progress {
    /// Begins, with this many seeds to run.
    pub(super) fn begin(planned: u64) -> Progress {
        let mut shown = shown();
        if shown.running == 0 {
            shown.began = Some(Instant::now());
        }
        shown.running += 1;
        shown.planned = shown.planned.saturating_add(planned);
        Progress { planned, done: 0 }
    }

    /// One more seed has run.
    pub(super) fn step(&mut self) {
        self.done += 1;
        let mut shown = shown();
        shown.done += 1;
        let now = Instant::now();
        let long = |since: Option<Instant>, time| since.is_none_or(|since| now - since >= time);
        if long(shown.began, QUIET_FOR) && long(shown.drawn, DRAW_EVERY) && is_watched() {
            shown.drawn = Some(now);
            draw(&line(shown.running, shown.done, shown.planned));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        let mut shown = shown();
        shown.running -= 1;
        shown.done -= self.done;
        shown.planned = shown.planned.saturating_sub(self.planned);
        if shown.drawn.take().is_some() {
            // What is right of the cursor; the runner writes its line next.
            write("\x1b[K");
            // Not drawn again before that.
            shown.drawn = (shown.running > 0).then(Instant::now);
        }
    }
}

/// `3 simulations: 120 of 600 seeds`.
fn line(running: u32, done: u64, planned: u64) -> String {
    let simulations = match running {
        1 => String::new(),
        count => format!("{count} simulations: "),
    };
    // A range without an end.
    let planned = match planned {
        planned if planned >= u64::from(u32::MAX) => String::new(),
        planned => format!(" of {planned}"),
    };
    format!("{simulations}{done}{planned} seeds")
}

/// Writes at the right edge of the current line, and puts the cursor back.
fn draw(text: &str) {
    let text: String = text.chars().take(WIDTH).collect();
    let back = WIDTH - 1;
    write(&format!("\x1b7\x1b[999C\x1b[{back}D{text:>WIDTH$}\x1b8"));
}

/// Past what captures the output of tests.
fn write(text: &str) {
    // Nothing depends on it.
    let _ = std::io::stderr().write_all(text.as_bytes());
}

fn is_watched() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term == "dumb");
    std::io::stderr().is_terminal() && !is_dumb && !is_set("CI")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_far_all_simulations_are() {
        assert_eq!(line(1, 12, 100), "12 of 100 seeds");
        assert_eq!(line(3, 120, 600), "3 simulations: 120 of 600 seeds");
        assert_eq!(line(1, 120, u64::from(u32::MAX)), "120 seeds");
    }
}
