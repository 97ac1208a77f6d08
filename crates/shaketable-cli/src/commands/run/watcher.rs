//! Watches the sweep of a campaign, and records its failures.
//!
//! During the sweep every response is counted and then forgotten. A failure is grouped with others
//! of the same cause, and afterwards the first seed of each group is run again, this time with
//! everything recorded: recording all runs would slow down the many that pass.

use super::Campaign;
use super::folders::move_passed;
use crate::commands::lint::Hazards;
use crate::pool::Pool;
use crate::progress::Progress;
use crate::protocol::{Request, Response};
use crate::report::{Group, Summary, json};
use crate::seed::Seed;
use crate::sweep::{Flow, Observer, run_one};
use std::path::Path;

/// More distinct failures than this are counted, but not run again.
const RECORDED_GROUPS_MAX: usize = 10;

/// Watches the sweep of a campaign.
pub(super) struct Watcher<'a> {
    pub(super) campaign: &'a Campaign<'a>,
    pub(super) summary: Summary,
    pub(super) progress: Progress,
    /// Runs that the user interrupted after a while.
    pub(super) cut_short: Vec<Response>,
    /// The hazards in all runs, if they are searched for.
    pub(super) hazards: Option<Hazards<'a>>,
}

/// A run of a sweep that was interrupted after this long may have been what the user was waiting
/// for.
const LONG_RUN_SECONDS: f64 = 1.0;

impl Observer for Watcher<'_> {
    fn interrupted(&mut self, response: Response) {
        if self.campaign.is_single() || response.real_seconds >= LONG_RUN_SECONDS {
            self.cut_short.push(response);
        }
    }

    fn finished(&mut self, mut response: Response) -> Flow {
        let campaign = self.campaign;
        let file = &campaign.session.files[response.file];
        if let Some(hazards) = &mut self.hazards {
            hazards.add(&response);
            response.outcome.trace = None;
            response.outcome.record = None;
        }
        if response.outcome.passed() {
            let moved = move_passed(&response.outcome);
            if let (Some(trace), false) = (&response.outcome.trace, campaign.is_json()) {
                let trace = Path::new(trace);
                self.progress.print(|| match moved {
                    Some(folder) => eprintln!("folder {}", folder.display()),
                    None => eprintln!("trace {}", trace.display()),
                });
            }
        }
        if campaign.is_json() {
            println!("{}", json::run(&response, file).line());
        } else if campaign.is_single() {
            campaign.show_single(&response, file);
        }
        self.summary.add(&response);
        if campaign.fail_fast && !response.outcome.passed() {
            return Flow::Stop;
        }
        Flow::Continue
    }

    fn tick(&mut self) {
        self.progress.show(&self.summary);
    }
}

impl Watcher<'_> {
    /// Runs the first seed of each group again, to get its record, its trace and what led to the
    /// failure.
    pub(super) fn record_failures(&mut self, pool: &mut Pool) {
        let campaign = self.campaign;
        for index in 0..self.summary.groups.len().min(RECORDED_GROUPS_MAX) {
            let Group {
                file,
                seeds,
                signature,
                ..
            } = &self.summary.groups[index];
            let request = Request {
                file: *file,
                seed: seeds[0],
                recording: campaign.record_of(*file, Seed(seeds[0])),
            };
            let signature = signature.clone();
            // After an interrupt that ended the sweep its failures are still explained; a second
            // one prevents that.
            let Some(response) = run_one(pool, request, &std::sync::atomic::AtomicBool::new(false))
            else {
                return;
            };
            let again = response
                .outcome
                .failures
                .first()
                .map(shaketable_host::verdict::Failure::signature);
            let group = &mut self.summary.groups[index];
            if again.as_ref() == Some(&signature) {
                group.example = response.outcome;
                group.printed = if response.printed.is_empty() {
                    std::mem::take(&mut group.printed)
                } else {
                    response.printed
                };
            } else {
                group.example.trace = response.outcome.trace;
                group.example.record = response.outcome.record;
                group.example.uncontrolled.push(
                    "failed differently, or not at all, when it was run again: see `check-determinism`".to_owned(),
                );
            }
        }
    }
}
