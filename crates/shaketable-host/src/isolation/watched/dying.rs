//! The end of the process: the seed that ends it is named and kept, and its record is made.
//!
//! Nothing here allocates, locks or panics: it runs wherever a thread was interrupted. So every
//! text is ready in the [`Watched`], files are written with plain system calls, and the record is
//! made by another process, which is free to do all that this one may not. If that process does not
//! report, a few words are left in the folder instead.

use super::handlers::PREPARED;
use super::words::{say, say_number, say_path, say_tail, say_text, signal_name};
use super::{ALL, PATH_BYTES, RECORDED, Watched};
use crate::hermetic::output;
use crate::isolation::beacon::FRAMES_MAX;
use crate::isolation::in_process;
use crate::shared_text::SharedText;
use libc::{c_int, c_void};
use std::ptr;
use std::sync::atomic::Ordering;

impl Watched {
    pub(super) fn note_frames(&self) {
        let mut frames = [ptr::null_mut(); FRAMES_MAX];
        // SAFETY: the buffer has the given length.
        let count = unsafe { libc::backtrace(frames.as_mut_ptr(), FRAMES_MAX as c_int) };
        self.beacon.leave_frames(&frames[..count as usize]);
    }

    /// Says what this seed did to the process, keeps the seed, and has its record made.
    pub(super) fn die(&self) {
        output::release();
        if let Some(client) = crate::tester::current_client() {
            self.beacon.set_client(Some(client));
        }
        self.note_frames();
        say(b"\nshaketable: this process is ended by ");
        match self.signal.load(Ordering::Relaxed) {
            0 => {
                say(b"the code under test: exit(");
                say_number(self.status.load(Ordering::Relaxed).unsigned_abs().into());
                say(b")");
            }
            signal => say(signal_name(signal)),
        }
        say(b", by seed ");
        say_number(self.seed.load(Ordering::Relaxed));
        say(b" of `");
        say_text(&self.name);
        say(b"`\n");
        if !self.printed.is_empty() {
            say(match self.printed.is_cut() {
                true => b"it had printed, at last:\n",
                false => b"it had printed:\n",
            });
            say_tail(&self.printed);
            say(b"\n");
        }
        self.keep();
        let is_told = self.test.len() > 1 && self.record();
        if is_told {
            return;
        }
        if self.folder.len() > 1 && self.report() {
            say(b"everything about it: ");
            say_path(&self.folder);
            say(b"\n");
        }
        say(b"to run it again:\n  ");
        say_text(&self.replay);
        say(b"\n");
        if self.is_new() && self.kept.load(Ordering::Relaxed) == 0 {
            say(b"kept as a case, which runs first from now on: commit ");
            say_path(&self.regressions);
            say(b"\n");
        }
    }

    /// Writes the seed to a case of its own.
    fn keep(&self) {
        if !self.is_new() {
            return;
        }
        make_folders_of(&self.regressions);
        // SAFETY: a terminated path; a file that could be opened is written and closed.
        unsafe {
            let file = libc::open(
                self.regressions.as_ptr().cast(),
                libc::O_WRONLY | libc::O_CREAT | libc::O_APPEND | libc::O_CLOEXEC,
                0o644,
            );
            let (text, length) = (self.regression.as_ptr().cast(), self.regression.len());
            let is_kept = file >= 0 && libc::write(file, text, length) == length as isize;
            let error = if is_kept {
                0
            } else {
                *libc::__errno_location()
            };
            self.kept.store(error, Ordering::Relaxed);
            libc::close(file);
        }
    }

    /// Leaves at least a report in the folder, if there can be no record.
    fn report(&self) -> bool {
        let mut path = [0_u8; PATH_BYTES + REPORT.len()];
        let folder = copy(&self.folder, &mut path);
        path[folder..folder + REPORT.len()].copy_from_slice(REPORT);
        make_folders(&mut path, folder + 1);
        // SAFETY: a terminated path, and texts with their lengths.
        unsafe {
            let file = libc::open(
                path.as_ptr().cast(),
                libc::O_WRONLY | libc::O_CREAT | libc::O_TRUNC | libc::O_CLOEXEC,
                0o644,
            );
            if file < 0 {
                return false;
            }
            const WORDS: &[u8] = b"the process died; to run it again:\n  ";
            libc::write(file, WORDS.as_ptr().cast(), WORDS.len());
            libc::write(file, self.replay.as_ptr().cast(), self.replay.len());
            libc::write(file, b"\n".as_ptr().cast(), 1);
            libc::close(file);
        }
        true
    }

    /// Has another process of this program simulate the seed up to here, with a record. Returns
    /// whether that process has reported.
    fn record(&self) -> bool {
        let Some(prepared) = PREPARED.get() else {
            return false;
        };
        if in_process::records_a_death() {
            return false;
        }
        // SAFETY: system calls on files and processes that are made here. The child does nothing
        // but become another program.
        unsafe {
            let file = libc::memfd_create(c"shaketable".as_ptr(), 0);
            let all = ptr::from_ref(self).cast::<c_void>();
            if file < 0 || libc::write(file, all, size_of::<Self>()) != size_of::<Self>() as isize {
                return false;
            }
            libc::lseek(file, 0, libc::SEEK_SET);
            // Not `fork`, which waits for the allocator, whose lock this thread may hold.
            let child = libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) as libc::pid_t;
            if child == 0 {
                let nowhere = libc::open(c"/dev/null".as_ptr(), libc::O_WRONLY);
                libc::dup2(nowhere, 1);
                libc::dup2(file, 0);
                let mut unblocked: libc::sigset_t = std::mem::zeroed();
                libc::sigemptyset(&raw mut unblocked);
                libc::sigprocmask(libc::SIG_SETMASK, &raw const unblocked, ptr::null_mut());
                let program = c"/proc/self/exe".as_ptr();
                let arguments = [
                    program,
                    self.test.as_ptr().cast(),
                    c"--exact".as_ptr(),
                    c"--include-ignored".as_ptr(),
                    ptr::null(),
                ];
                libc::execve(program, arguments.as_ptr(), prepared.environment.as_ptr());
                libc::_exit(1);
            }
            libc::close(file);
            child > 0 && wait_for(child) == Some(RECORDED)
        }
    }
}

/// How long the record of a crash may take.
const RECORD_MILLIS_MAX: u32 = 120_000;
const REPORT: &[u8] = b"/report.txt\0";

/// Copies a terminated path; returns its length without the end.
fn copy(text: &SharedText<PATH_BYTES>, path: &mut [u8]) -> usize {
    let length = text.len() - 1;
    // SAFETY: the text has this many bytes, and the path has room for all of them.
    unsafe { ptr::copy_nonoverlapping(text.as_ptr(), path.as_mut_ptr(), length) };
    length
}

/// Makes the folders of a file.
fn make_folders_of(file: &SharedText<PATH_BYTES>) {
    let mut path = [0_u8; PATH_BYTES];
    let length = copy(file, &mut path);
    make_folders(&mut path, length);
}

/// Makes the folder before each slash of a path of this length.
fn make_folders(path: &mut [u8], length: usize) {
    for end in 1..length {
        if path[end] == b'/' {
            path[end] = 0;
            // SAFETY: a terminated path. Folders that are there already are left as they are.
            unsafe { libc::mkdir(path.as_ptr().cast(), 0o755) };
            path[end] = b'/';
        }
    }
}

/// Waits for a child, for as long as a record may take. Returns its exit status, if it has one.
fn wait_for(child: libc::pid_t) -> Option<c_int> {
    const STEP_MILLIS: c_int = 10;
    let mut waited = 0;
    // SAFETY: `child` is a process that was started here and not yet waited for.
    unsafe {
        loop {
            let mut status = 0;
            match libc::waitpid(child, &raw mut status, libc::WNOHANG) {
                0 => {}
                found if found == child && libc::WIFEXITED(status) => {
                    return Some(libc::WEXITSTATUS(status));
                }
                _ => return None,
            }
            if waited >= RECORD_MILLIS_MAX {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, &raw mut status, 0);
                return None;
            }
            libc::poll(ptr::null_mut(), 0, STEP_MILLIS);
            waited += STEP_MILLIS.unsigned_abs();
        }
    }
}

/// Says which seeds were running when the process ended for a reason that is none of theirs.
pub(super) fn list_running(signal: c_int) {
    let running = || {
        let all = ALL.iter().map(|cell| cell.load(Ordering::Acquire));
        // SAFETY: null, or a `Watched` that is never freed.
        let all = all.filter_map(|one| unsafe { one.as_ref() });
        all.filter(|one| one.is_running.load(Ordering::Acquire))
    };
    if running().next().is_none() {
        return;
    }
    say(b"\nshaketable: this process is ended by ");
    say(signal_name(signal));
    say(b", while these were running:\n");
    for one in running() {
        say(b"  seed ");
        say_number(one.seed.load(Ordering::Relaxed));
        say(b" of `");
        say_text(&one.name);
        say(b"`: ");
        say_text(&one.replay);
        say(b"\n");
    }
}
