//! The progress bar, on standard error and only on a terminal.
//!
//! What matters most comes first: on a narrow terminal the last facts are left out, each as a
//! whole.

mod terminal;

use crate::report::Summary;
use crate::report::human::{plural, simulated};
use indicatif::{ProgressBar, ProgressStyle};
use std::time::{Duration, Instant};

/// Shows how far a sweep is.
pub struct Progress {
    bar: ProgressBar,
    runs: Option<u64>,
    duration: Option<Duration>,
    start: Instant,
}

impl Progress {
    /// A bar for a number of runs, or for a duration.
    pub fn new(runs: Option<u64>, duration: Option<Duration>) -> Progress {
        let bar = match runs {
            Some(runs) => bar(Some(runs), "{bar:20} {msg}"),
            None => bar(None, "{spinner} {msg}"),
        };
        Progress {
            bar,
            runs,
            duration,
            start: Instant::now(),
        }
    }

    /// No bar.
    pub fn hidden() -> Progress {
        Progress {
            bar: ProgressBar::hidden(),
            runs: None,
            duration: None,
            start: Instant::now(),
        }
    }

    /// Shows the state of a sweep.
    pub fn show(&self, summary: &Summary) {
        let state = State {
            runs: summary.runs(),
            failed: summary.total_failed(),
            simulated_seconds: summary.simulated_seconds,
            elapsed: self.start.elapsed(),
        };
        self.bar.set_position(state.runs);
        let before = match self.runs {
            Some(_) => 21,
            None => 2,
        };
        let text = state.text(self.runs, self.duration);
        let room = usize::from(terminal::columns()).saturating_sub(before);
        self.bar.set_message(fitting(&text, room).to_owned());
        self.bar.tick();
    }

    /// Writes something above the bar.
    pub fn print(&self, write: impl FnOnce()) {
        self.bar.suspend(write);
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A line that moves, for a number of steps if it is known.
fn bar(length: Option<u64>, template: &str) -> ProgressBar {
    ProgressBar::with_draw_target(length, terminal::target()).with_style(style(template))
}

/// A line with what a command is doing.
pub fn spinner() -> ProgressBar {
    bar(None, "{spinner} {wide_msg}")
}

/// The facts of a list that have room, or what has room of the first.
fn fitting(text: &str, columns: usize) -> &str {
    let mut text = text;
    while text.len() > columns {
        match text.rfind(", ") {
            Some(end) => text = &text[..end],
            None => return text.get(..columns).unwrap_or(text),
        }
    }
    text
}

/// Shows how far the failures of a sweep have been made small.
pub struct Minimisation(ProgressBar);

impl Minimisation {
    /// A line, if it is to be seen at all.
    pub fn new(is_shown: bool) -> Minimisation {
        Minimisation(match is_shown {
            true => spinner(),
            false => ProgressBar::hidden(),
        })
    }

    /// Shows which failure of how many is being made small, and in how many runs.
    pub fn show(&self, (number, of): (usize, usize), runs: u64) {
        let which = match of {
            1 => "the failure".to_owned(),
            _ => format!("failure {number} of {of}"),
        };
        let runs = plural(runs, "run");
        self.0
            .set_message(format!("making {which} small: {runs} (Ctrl-C ends it)"));
        self.0.tick();
    }

    /// Removes the line.
    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}

/// How far a sweep is.
struct State {
    runs: u64,
    failed: u64,
    simulated_seconds: f64,
    elapsed: Duration,
}

impl State {
    /// The state in words, for a sweep of so many runs or of that duration.
    fn text(&self, of: Option<u64>, duration: Option<Duration>) -> String {
        let runs = match of {
            Some(of) => format!("{} of {}", self.runs, plural(of, "run")),
            None => plural(self.runs, "run"),
        };
        let failures = match self.failed {
            0 => "no failure".to_owned(),
            failed => plural(failed, "failure"),
        };
        let rate = self.runs as f64 / self.elapsed.as_secs_f64().max(1e-3);
        let by_runs = of.filter(|_| rate > 0.0).map(|of| {
            let left = of.saturating_sub(self.runs);
            Duration::from_secs_f64((left as f64 / rate).min(1e9))
        });
        let by_time = duration.map(|duration| duration.saturating_sub(self.elapsed));
        let left = match (by_runs, by_time) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        let left = left.map_or(String::new(), |left| {
            // Nobody needs to know the milliseconds.
            let seconds = Duration::from_secs(left.as_secs());
            format!(", {} left", humantime::format_duration(seconds))
        });
        let simulated = simulated(self.simulated_seconds);
        format!("{runs}, {failures}{left}, {rate:.0} runs/s, {simulated} simulated")
    }
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is fixed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_narrow_terminal_has_fewer_facts() {
        let text = "134 runs, no failure, 57s left";
        assert_eq!(fitting(text, 30), text);
        assert_eq!(fitting(text, 29), "134 runs, no failure");
        assert_eq!(fitting(text, 8), "134 runs");
        assert_eq!(fitting(text, 3), "134");
    }

    #[test]
    fn the_state_is_told_with_what_matters_first() {
        let state = |runs, failed| State {
            runs,
            failed,
            simulated_seconds: 100.0 * runs as f64,
            elapsed: Duration::from_millis(2_500),
        };
        let minute = Some(Duration::from_secs(60));
        let texts = [
            state(0, 0).text(Some(4000), None),
            state(134, 0).text(Some(4000), None),
            state(134, 1).text(None, minute),
            state(134, 2).text(Some(1_000_000), minute),
        ];
        assert_eq!(
            texts,
            [
                "0 of 4000 runs, no failure, 0 runs/s, 0.0 s simulated",
                "134 of 4000 runs, no failure, 1m 12s left, 54 runs/s, 3.7 hours simulated",
                "134 runs, 1 failure, 57s left, 54 runs/s, 3.7 hours simulated",
                "134 of 1000000 runs, 2 failures, 57s left, 54 runs/s, 3.7 hours simulated",
            ]
        );
    }
}
