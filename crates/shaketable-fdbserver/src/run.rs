//! One run: a folder, a process, and a verdict.

use crate::folder::Folder;
use crate::server::{SeedTooWide, Server};
use crate::test_file::Prepared;
use crate::trace::{self, Tail};
use crate::verdict::{Ended, NOT_LOADED, Reading};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use shaketable_host::plan::Settings;
use shaketable_host::trace::Format;
use shaketable_host::verdict::{Failure, Outcome};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How often it is looked whether the server has written more, or ended.
const POLL: Duration = Duration::from_millis(25);
/// After how many such looks it is asked whether the server waits for room on the disk.
const POLLS_PER_COMPLAINT: u32 = 20;
/// How much of the console is read: its beginning and its end.
const CONSOLE_BYTES_MAX: u64 = 1 << 20;
/// How many characters of what went to standard error are shown.
const PRINTED_MAX: usize = 16 << 10;

/// A seed to run.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// The test file.
    pub prepared: &'a Prepared,
    /// What is the same for every seed.
    pub settings: &'a Settings,
    /// The seed.
    pub seed: u64,
    /// After how much real time the server is killed.
    pub limit: Duration,
    /// Which traces are kept.
    pub keep: Keep,
    /// The form of the trace.
    pub format: Format,
}

/// Whether the trace of a run is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keep {
    /// No.
    Nothing,
    /// In this file, if the run fails.
    IfFailed(PathBuf),
    /// In this file.
    Always(PathBuf),
}

/// Why a seed could not be run at all.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Its seed.
    #[error(transparent)]
    Seed(#[from] SeedTooWide),
    /// Its folder.
    #[error("cannot make a folder for the run")]
    Folder(#[source] io::Error),
    /// Its process.
    #[error("cannot start {}", .0.display())]
    Start(PathBuf, #[source] io::Error),
    /// Its trace.
    #[error("cannot read what fdbserver wrote")]
    Read(#[source] io::Error),
    /// The copy of its trace.
    #[error("cannot write {}", .0.display())]
    Write(PathBuf, #[source] io::Error),
}

/// Whether a seed runs with buggify when neither the user nor the file says so: four of five do, as
/// FoundationDB's own harness has it.
fn draws_buggify(seed: u64) -> bool {
    // Consecutive seeds differ in their low bits only.
    let mixed = seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    !(mixed >> 32).is_multiple_of(5)
}

impl Server {
    /// Runs a seed, and returns its outcome with what went to standard error. `is_interrupted` is
    /// asked again and again, and ends the run.
    pub fn run(
        &self,
        request: &Request<'_>,
        is_interrupted: &dyn Fn() -> bool,
    ) -> Result<(Outcome, String), RunError> {
        self.takes(request.seed)?;
        let folder = Folder::make(self, request.prepared).map_err(RunError::Folder)?;
        let settings = request.settings;
        // The server reads the file's own setting, and that beats the command line.
        let buggify = request.prepared.buggify.or(settings.buggify);
        let buggify = buggify.unwrap_or_else(|| draws_buggify(request.seed));
        let start = |error| RunError::Start(self.program.clone(), error);
        let process = self.start(request, &folder, buggify).map_err(start)?;
        let mut process = Running(process);
        let mut reading = Reading::new(request.seed, buggify, &request.prepared.workload);
        let mut tail = Tail::new(folder.traces());
        let began = Instant::now();
        let mut polls = 0u32;
        let ended = loop {
            // Asked before the trace is read: then nothing is written after the last look.
            let status = process.0.try_wait().map_err(RunError::Read)?;
            tail.read(|line| reading.line(line))
                .map_err(RunError::Read)?;
            if let Some(status) = status {
                break how_it_ended(status);
            }
            if is_interrupted() {
                break Ended::Interrupted;
            }
            if began.elapsed() > request.limit {
                break Ended::Hung(request.limit);
            }
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS_PER_COMPLAINT) && folder.waits_for_room() {
                break Ended::WithoutRoom;
            }
            std::thread::sleep(POLL);
        };
        drop(process);
        let ended = match ended {
            // Whatever it complained about, it could not write.
            Ended::Exited(1..) | Ended::Killed(_) if folder.is_full() => Ended::WithoutRoom,
            ended => ended,
        };
        let stdout = read_console(&folder.stdout()).map_err(RunError::Read)?;
        let stderr = read_console(&folder.stderr()).map_err(RunError::Read)?;
        // Looking lines up takes a while, and only a comparison asks for them.
        let coverage = settings.measure.then(|| reading.coverage());
        let mut outcome = reading.finish(&stdout, &stderr, ended);
        outcome.coverage = coverage.unwrap_or_default();
        for line in &mut outcome.stack {
            // The server names a file with debug information that may not exist here.
            let program = self.program.display().to_string();
            *line = line.replace("fdbserver.debug", &program);
        }
        let not_loaded = |failure: &&mut Failure| failure.message == NOT_LOADED;
        for failure in outcome.failures.iter_mut().filter(not_loaded) {
            if let Some(reason) = why_not_loaded(&folder, request.prepared) {
                failure.message = format!("{NOT_LOADED}: {reason}");
            }
        }
        let path = match &request.keep {
            Keep::Always(path) => Some(path),
            Keep::IfFailed(path) if !outcome.passed() => Some(path),
            Keep::IfFailed(_) | Keep::Nothing => None,
        };
        if let Some(path) = path {
            keep(&folder.traces(), path, request.format)
                .map_err(|error| RunError::Write(path.clone(), error))?;
            outcome.trace = Some(path.display().to_string());
        }
        Ok((outcome, shortened(&stderr)))
    }

    fn start(&self, request: &Request<'_>, folder: &Folder, buggify: bool) -> io::Result<Child> {
        let settings = request.settings;
        let on_off = |on: bool| if on { "on" } else { "off" };
        let faults = settings.fault_injection;
        let faults = faults.or(request.prepared.fault_injection).unwrap_or(true);
        let mut command = Command::new(&self.program);
        command
            .args(["-r", "simulation", "-f", "test.toml", "-L", "traces"])
            .args(["-s", &request.seed.to_string()])
            .args(["-b", on_off(buggify)])
            .args(["-fi", on_off(faults)])
            .args(["--trace-format", request.format.extension()]);
        for (name, value) in &settings.knobs {
            command.arg(format!("--knob_{name}={value}"));
        }
        command
            .current_dir(folder.path())
            .env("LD_LIBRARY_PATH", library_search(folder))
            .stdin(Stdio::null())
            .stdout(File::create(folder.stdout())?)
            .stderr(File::create(folder.stderr())?)
            .process_group(0);
        end_with_parent(&mut command);
        command.spawn()
    }
}

/// Where the server's loader looks for libraries: in the folder of the run first.
fn library_search(folder: &Folder) -> OsString {
    let mut search = folder.libraries().into_os_string();
    if let Some(more) = std::env::var_os("LD_LIBRARY_PATH").filter(|more| !more.is_empty()) {
        search.push(":");
        search.push(more);
    }
    search
}

/// The loader's own reason why a library cannot be loaded, which the server keeps to itself.
fn why_not_loaded(folder: &Folder, prepared: &Prepared) -> Option<String> {
    for path in prepared.libraries.values() {
        let listed = Command::new("ldd")
            .arg("-r")
            .arg(path)
            .env("LD_LIBRARY_PATH", library_search(folder))
            .output()
            .ok()?;
        let text = [listed.stdout, listed.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let is_reason = |line: &&str| {
            ["not found", "undefined symbol", "error", "not a dynamic"]
                .iter()
                .any(|word| line.contains(word))
        };
        if let Some(reason) = text.lines().find(is_reason) {
            return Some(reason.trim().to_owned());
        }
    }
    None
}

/// Makes the server end when this process does, however that happens.
#[allow(unsafe_code, reason = "what runs between fork and exec")]
fn end_with_parent(command: &mut Command) {
    // SAFETY: the closure makes one system call and touches no memory that other threads share.
    unsafe {
        command
            .pre_exec(|| nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).map_err(io::Error::from));
    }
}

/// The server's process and what it started: all of it ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let group = Pid::from_raw(self.0.id().cast_signed());
        // It may have ended already.
        let _ = killpg(group, Signal::SIGKILL);
        let _ = self.0.wait();
    }
}

fn how_it_ended(status: ExitStatus) -> Ended {
    match (status.code(), status.signal()) {
        (Some(code), _) => Ended::Exited(code),
        (None, signal) => Ended::Killed(signal.unwrap_or(0)),
    }
}

/// A console, cut in the middle if it is long.
fn read_console(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    if length > CONSOLE_BYTES_MAX {
        let mut beginning = (&mut file).take(CONSOLE_BYTES_MAX / 2);
        beginning.read_to_end(&mut bytes)?;
        bytes.extend_from_slice("\n…\n".as_bytes());
        file.seek(SeekFrom::Start(length - CONSOLE_BYTES_MAX / 2))?;
    }
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= PRINTED_MAX {
        return text.to_owned();
    }
    let first: String = text.chars().take(PRINTED_MAX / 2).collect();
    let last: String = text.chars().skip(count - PRINTED_MAX / 2).collect();
    format!("{first}\n…\n{last}")
}

/// Copies the trace of a run, which may have been rolled, to one file.
fn keep(traces: &Path, to: &Path, format: Format) -> io::Result<()> {
    if let Some(folder) = to.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut kept = BufWriter::new(File::create(to)?);
    kept.write_all(format.header().as_bytes())?;
    for file in trace::files(traces)? {
        let mut lines = BufReader::new(File::open(file)?);
        let mut line = Vec::new();
        while lines.read_until(b'\n', &mut line)? > 0 {
            // Of XML only whole events: one file has one header and one footer, and what was cut
            // off would make all of it unreadable.
            let is_xml = line.starts_with(b"<Event ") && line.ends_with(b"/>\n");
            if is_xml || line.starts_with(b"{") {
                kept.write_all(&line)?;
            }
            line.clear();
        }
    }
    kept.write_all(format.footer().as_bytes())?;
    kept.flush()
}
