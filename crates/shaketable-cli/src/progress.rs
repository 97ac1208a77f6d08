//! The progress bar, on standard error and only on a terminal.

use crate::report::Summary;
use crate::report::human::simulated;
use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// Shows how far a sweep is.
pub struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar for a number of runs, or for a duration.
    pub fn new(runs: Option<u64>, duration: Option<Duration>) -> Progress {
        let bar = match runs {
            Some(1) => ProgressBar::hidden(),
            Some(runs) => ProgressBar::new(runs).with_style(style(
                "{bar:30} {pos}/{len} runs, {per_sec:.green}, {msg}, {eta} left",
            )),
            None => {
                let until = duration.map_or(String::new(), |duration| {
                    format!(" of {}", humantime::format_duration(duration))
                });
                ProgressBar::no_length().with_style(style(&format!(
                    "{{spinner}} {{pos}} runs in {{elapsed}}{until}, {{per_sec:.green}}, {{msg}}"
                )))
            }
        };
        Progress { bar }
    }

    /// Shows the state of a sweep.
    pub fn show(&self, summary: &Summary) {
        self.bar.set_position(summary.runs());
        let failed = summary.total_failed();
        let failures = match failed {
            0 => "no failure".to_owned(),
            1 => "1 failure".to_owned(),
            _ => format!("{failed} failures"),
        };
        let time = simulated(summary.simulated_seconds);
        self.bar
            .set_message(format!("{failures}, {time} simulated"));
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

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).expect("the template is fixed")
}
