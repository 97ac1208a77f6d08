//! Watches the sweep of a campaign, and records its failures.
//!
//! During the sweep every response is counted and then forgotten. A failure is grouped with others
//! of the same cause, and afterwards the first seed of each group is run again, this time with
//! everything recorded: recording all runs would slow down the many that pass.

use super::Campaign;
use super::folders::move_passed;
use crate::args::Minimising;
use crate::commands::lint::Hazards;
use crate::minimise::{Failing, minimise, relative};
use crate::pool::{Addresses, Pool};
use crate::progress::{Minimisation, Progress};
use crate::protocol::{Job, Request, Response};
use crate::report::{Group, Known, Small, Summary, json};
use crate::seed::Seed;
use crate::session::SessionError;
use crate::sweep::{Flow, Observer, run_one};
use shaketable_host::bugs;
use shaketable_host::case::Case;
use shaketable_host::failure_folder;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::Instant;

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
    pub(super) hazards: Option<Hazards>,
    /// Whether something new still comes, if that decides when to stop.
    pub(super) stability: Option<Stability>,
}

/// When something new came last.
#[derive(Debug, Default)]
pub(super) struct Stability {
    things: usize,
    last_news: u64,
}

impl Stability {
    /// Whether everything that must hold has held, and nothing new came for as many runs as it took
    /// until then.
    fn look(&mut self, summary: &Summary) -> bool {
        let things = summary.things_met();
        if things > self.things {
            self.things = things;
            self.last_news = summary.runs();
        }
        summary.is_stable(self.last_news)
    }
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
            response.outcome.hazards = None;
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
        if let Some(stability) = &mut self.stability {
            let is_stable = stability.look(&self.summary);
            self.summary.last_news = Some(stability.last_news);
            if is_stable {
                return Flow::Stop;
            }
        }
        Flow::Continue
    }

    fn tick(&mut self) {
        self.progress.show(&self.summary);
    }
}

impl Watcher<'_> {
    /// Finds out which failures are remembered.
    pub(super) fn recall_failures(&mut self) {
        let Some(folder) = &self.campaign.remembered else {
            return;
        };
        for group in &mut self.summary.groups {
            let Some(failure) = group.example.failures.first() else {
                continue;
            };
            match bugs::recall(folder, &failure.words(), &group.signature) {
                Ok(None) => {}
                Ok(Some((path, case))) => {
                    group.known = Some(Known {
                        is_small: case.only.is_some(),
                        first_seen: case.first_seen,
                        case: path,
                    });
                }
                Err(error) => return warn(&SessionError::Write(folder.clone(), error)),
            }
        }
    }

    /// Makes the first run of each group small, and keeps the case in its folder. What time there
    /// is, is divided evenly among them. An interrupt ends it; what was found until then counts.
    pub(super) fn minimise_failures(&mut self) {
        let campaign = self.campaign;
        let session = campaign.session;
        let is_small = |group: &Group| {
            let is_case = session.case_seeds[group.file].is_some();
            is_case || group.known.as_ref().is_some_and(|known| known.is_small)
        };
        let groups = self.summary.groups.iter_mut().take(RECORDED_GROUPS_MAX);
        let mut groups: Vec<&mut Group> = match campaign.minimising {
            Minimising::Never => return,
            Minimising::Auto => groups.filter(|group| !is_small(group)).collect(),
            Minimising::Always => groups.collect(),
        };
        if groups.is_empty() || session.interrupted.load(Ordering::Relaxed) {
            return;
        }
        // What candidates print is of no interest, and there may be more to do than in the sweep.
        let job = Job {
            capture: true,
            ..session.job.clone()
        };
        let pool = Pool::start(&job, campaign.minimise_jobs, Addresses::Fixed);
        let mut pool = match pool {
            Ok(pool) => pool,
            Err(error) => return warn(&error),
        };
        let began = Instant::now();
        let of = groups.len();
        let progress = Minimisation::new(!campaign.is_json());
        for (index, group) in groups.iter_mut().enumerate() {
            let run = Failing {
                file: group.file,
                seed: Seed(group.example.seed),
                case: group.case.as_deref(),
            };
            let left = campaign.minimise_budget.saturating_sub(began.elapsed());
            let budget = left / (of - index) as u32;
            let mut show = |runs| progress.show((index + 1, of), runs);
            let Ok(mut minimised) = minimise(session, &mut pool, run, budget, &mut show) else {
                continue;
            };
            let folder = campaign.folder_of(run.file, run.seed, run.case);
            // What is left is worth more than the file.
            if let Err(error) = minimised.write(&folder.join(failure_folder::CASE)) {
                warn(&error);
            }
            if let Some(bugs) = &campaign.remembered {
                let cause = group.example.cause.as_ref();
                let finding = cause.map(|cause| cause.name.as_str());
                if let Err(error) = minimised.remember(bugs, finding) {
                    warn(&error);
                }
            }
            group.small = Some(Small {
                needs: minimised.found.sentences(),
                clients: minimised.found.case.clients.unwrap_or_default(),
                is_minimal: minimised.found.is_minimal,
                case: minimised.path,
            });
        }
        progress.finish();
    }

    /// Runs the first seed of each group again, to get its record, its trace and what led to the
    /// failure.
    pub(super) fn record_failures(&mut self, pool: &mut Pool) {
        let campaign = self.campaign;
        for index in 0..self.summary.groups.len().min(RECORDED_GROUPS_MAX) {
            let group = &mut self.summary.groups[index];
            let seed = Seed(group.example.seed);
            let folder = campaign.folder_of(group.file, seed, group.case.as_deref());
            if let Some(case) = &group.case {
                match write_case(case, &folder) {
                    Ok(path) => group.case_file = Some(path),
                    Err(error) => warn(&error),
                }
            }
            let Group {
                file, signature, ..
            } = &*group;
            let reproduce = group.reproduce(&campaign.session.repro, &self.summary.files[*file]);
            let request = Request {
                file: *file,
                seed: seed.0,
                recording: campaign.record_in(&folder, reproduce),
                case: group.case.clone(),
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

/// Keeps a run that has no seed of its own in the folder of its failure.
fn write_case(case: &Case, folder: &Path) -> Result<PathBuf, SessionError> {
    let path = folder.join(failure_folder::FUTURE);
    let written = std::fs::create_dir_all(folder).and_then(|()| {
        let case = Case {
            test: relative(folder, &case.test),
            ..case.clone()
        };
        std::fs::write(&path, case.to_toml())
    });
    match written {
        Ok(()) => Ok(path),
        Err(error) => Err(SessionError::Write(path, error)),
    }
}

fn warn(error: &dyn std::error::Error) {
    eprintln!("warning: {}", crate::with_causes(error));
}
