//! The instruments: a clock that counts what the process itself used, memory, instructions, and the
//! line that is printed.
//!
//! Times are CPU times (user and system) wherever one thread does the work, because the machine may
//! be busy with other things; best of several runs, because whatever disturbs a run makes it
//! slower. Where threads or processes wait for one another, only the machine's clock measures what
//! matters, and the line says `wall`.

use nix::sys::resource::{UsageWho, getrusage};
use nix::time::{ClockId, clock_gettime};
use std::fmt::Display;
use std::process::Command;
use std::time::Duration;

/// The target of a figure.
#[derive(Clone, Copy)]
pub enum Target {
    /// At least this.
    AtLeast(f64),
    /// At most this.
    AtMost(f64),
    /// No target: the figure is only shown.
    None,
}

/// Prints one figure beside its target.
pub fn line(what: impl Display, figure: f64, unit: &str, target: Target) {
    let (asked, kept) = match target {
        Target::AtLeast(bound) => (format!("at least {}", number(bound)), figure >= bound),
        Target::AtMost(bound) => (format!("at most {}", number(bound)), figure <= bound),
        Target::None => (String::new(), true),
    };
    let verdict = match target {
        Target::None => "",
        _ if kept => "kept",
        _ => "MISSED",
    };
    let text = format!(
        "{what:<78} {:>13} {unit:<16} {asked:<20} {verdict}",
        number(figure)
    );
    println!("{}", text.trim_end());
}

/// Large numbers whole and in groups of three digits, small ones with two decimals.
fn number(value: f64) -> String {
    if value.abs() < 100.0 {
        return format!("{value:.2}");
    }
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The CPU time that `body` takes, in seconds, and its result.
pub fn cpu_seconds<T>(body: impl FnOnce() -> T) -> (f64, T) {
    let now = || {
        Duration::from(
            clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).expect("every process has one"),
        )
    };
    let begin = now();
    let result = body();
    ((now() - begin).as_secs_f64(), result)
}

/// The least CPU time of several runs, in seconds.
pub fn best_cpu_seconds(runs: usize, mut body: impl FnMut()) -> f64 {
    let runs = (0..runs).map(|_| cpu_seconds(&mut body).0);
    runs.fold(f64::INFINITY, f64::min)
}

/// The time on the wall that `body` takes, in seconds, and its result.
#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures the machine's time"
)]
pub fn wall_seconds<T>(body: impl FnOnce() -> T) -> (f64, T) {
    let begin = std::time::Instant::now();
    let result = body();
    (begin.elapsed().as_secs_f64(), result)
}

/// What a program and all it started used.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// CPU time, in seconds.
    pub cpu: f64,
    /// Time on the wall, in seconds.
    pub wall: f64,
    /// The largest resident set of any process that this process started and that has ended, in
    /// MiB.
    pub largest_mib: f64,
}

/// Runs a program to its end; returns what it wrote to standard output and what it used. Panics if
/// it fails.
pub fn run(command: &mut Command) -> (String, Usage) {
    let children = || getrusage(UsageWho::RUSAGE_CHILDREN).expect("every process has one");
    let cpu = |usage: nix::sys::resource::Usage| {
        let seconds = |time: nix::sys::time::TimeVal| {
            time.tv_sec() as f64 + time.tv_usec() as f64 / 1_000_000.0
        };
        seconds(usage.user_time()) + seconds(usage.system_time())
    };
    let before = cpu(children());
    let (wall, output) = wall_seconds(|| command.output());
    let output = output.unwrap_or_else(|error| panic!("{command:?} does not start: {error}"));
    assert!(
        output.status.success(),
        "{command:?} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let usage = Usage {
        cpu: cpu(children()) - before,
        wall,
        largest_mib: children().max_rss() as f64 / 1024.0,
    };
    (String::from_utf8_lossy(&output.stdout).into_owned(), usage)
}

/// The memory of this process, in MiB.
pub fn resident_mib() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0.0) * 4096.0 / 1024.0 / 1024.0
}

/// The instructions that one operation takes: this program is run under callgrind with `arguments`
/// and a number of operations, twice, and the difference counts. `None` if there is no valgrind.
pub fn instructions(arguments: &[&str], few: u64, many: u64) -> Option<f64> {
    let program = std::env::current_exe().ok()?;
    let count = |operations: u64| {
        let output = Command::new("valgrind")
            .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
            .arg(&program)
            .args(arguments)
            .arg(operations.to_string())
            .output()
            .ok()?;
        let text = String::from_utf8_lossy(&output.stderr).into_owned();
        let collected = text.lines().find_map(|line| line.split_once("Collected :"));
        let Some((_, collected)) = collected else {
            panic!("expected a count from callgrind, found: {text}");
        };
        collected.trim().parse::<f64>().ok()
    };
    Some((count(many)? - count(few)?) / (many - few) as f64)
}
