//! `compare`: the same library under a real server and in the embedded host.

use crate::args::{CompareArgs, MessageFormat};
use crate::compare::{Sample, markdown, rows};
use crate::exit_codes;
use crate::pool::Addresses;
use crate::progress::Progress;
use crate::protocol::{Host, Response};
use crate::report::{Summary, human, json};
use crate::session::{Session, SessionError};
use crate::sweep::{Ended, Flow, Observer, Schedule, sweep};
use shaketable_host::plan::Recording;

/// How many seeds the server runs by default.
const SEEDS: u64 = 20;
/// How many more the embedded host runs.
const EMBEDDED_FACTOR: u64 = 10;
/// But at least this many.
const EMBEDDED_MIN: u64 = 200;

/// `compare`.
pub fn compare(args: &CompareArgs) -> Result<u8, SessionError> {
    let mut simulation = args.simulation.clone();
    // A server has no swarm, and both hosts must have the same odds.
    simulation.swarm.get_or_insert(crate::args::OnOff::Off);
    simulation.buggify.get_or_insert(crate::args::OnOff::On);
    let file = std::slice::from_ref(&args.file);
    let session = Session::prepare(file, &simulation, &args.build, true)?;
    let host = args.host.of_server();
    let mut session = session.on(&host, &simulation, false)?;
    session.job.settings.measure = true;
    session.job.settings.coverage = true;
    let real_schedule = session.schedule(&args.sweep, SEEDS)?;
    let mut schedule = real_schedule.clone();
    let runs = real_schedule.count.unwrap_or(SEEDS);
    let embedded_runs = args
        .embedded_seeds
        .unwrap_or((runs * EMBEDDED_FACTOR).max(EMBEDDED_MIN));
    (schedule.count, schedule.duration) = (Some(embedded_runs), None);
    let server = session.job.host.server().map(ToString::to_string);
    let server = server.unwrap_or_default();
    let is_json = args.output.message_format == MessageFormat::Json;
    if !is_json {
        eprintln!(
            "{} from seed {} by {server}, {} in this program",
            human::plural(runs, "run"),
            real_schedule.first,
            human::plural(embedded_runs, "run"),
        );
    }
    let Some(real) = collect(&session, &real_schedule, args.sweep.jobs)? else {
        return Ok(exit_codes::INTERRUPTED);
    };
    session.job.host = Host::Embedded;
    session.job.hang_limit_seconds = crate::session::HANG_LIMIT.as_secs_f64();
    let Some(embedded) = collect(&session, &schedule, args.sweep.jobs)? else {
        return Ok(exit_codes::INTERRUPTED);
    };
    let rows = rows(&real, &embedded);
    let differs = rows
        .iter()
        .filter(|row| row.differs() && row.counts)
        .count();
    if is_json {
        println!("{}", json::comparison(&args.file, &server, &rows).line());
    } else {
        print!("{}", markdown(&server, &rows));
        let verdict = match differs {
            0 => "no difference beyond chance in what a client can see".to_owned(),
            _ => format!(
                "{} beyond chance in what a client can see",
                human::plural(differs as u64, "difference")
            ),
        };
        println!("\n{}: {verdict}", args.file.display());
    }
    Ok(match differs {
        0 => exit_codes::PASSED,
        _ => exit_codes::HOSTS_DIFFER,
    })
}

/// Runs a schedule and collects what it shows; nothing if the user interrupts.
fn collect(
    session: &Session,
    schedule: &Schedule,
    jobs: Option<u16>,
) -> Result<Option<Sample>, SessionError> {
    let mut pool = session.pool(session.workers(jobs, schedule.runs()), Addresses::Fixed)?;
    let mut collector = Collector {
        sample: Sample::default(),
        summary: Summary::new(session.files.clone()),
        progress: Progress::new(schedule.runs(), schedule.duration),
    };
    let ended = sweep(
        &mut pool,
        schedule,
        |_, _| Recording::Nothing,
        &session.interrupted,
        &mut collector,
    );
    collector.progress.finish();
    Ok((ended == Ended::Complete).then_some(collector.sample))
}

struct Collector {
    sample: Sample,
    summary: Summary,
    progress: Progress,
}

impl Observer for Collector {
    fn finished(&mut self, response: Response) -> Flow {
        self.sample.add(&response.outcome, response.real_seconds);
        self.summary.add(&response);
        Flow::Continue
    }

    fn tick(&mut self) {
        self.progress.show(&self.summary);
    }
}
