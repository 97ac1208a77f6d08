//! The outside of a kernel: all sockets of a client or of a server, and the bell by which other
//! threads end its wait.
//!
//! The kernel's own thread reads and writes the sockets. Whenever it has nothing else to do it
//! sends what was collected and takes in what has arrived, and looks again for a few microseconds
//! before it sleeps: a message and its answer are rarely further apart.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::time::TimeSpec;
use shaketable_kernel::{Kernel, Outside};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;

/// Something with a socket.
pub trait Source {
    /// Sends what waits to be sent. Returns whether something still waits.
    fn flush(&self) -> bool;
    /// Takes in what has arrived. Returns whether anything had.
    fn receive(&self) -> bool;
}

/// See the module. Cheap to clone.
#[derive(Clone)]
pub struct Poller(Rc<Inner>);

struct Inner {
    entries: RefCell<Vec<Entry>>,
    /// The source that was heard last: the next message is most likely its.
    recent: RefCell<Option<Weak<dyn Source>>>,
    /// How many looks there have been since all sources were listened to.
    looks: Cell<u32>,
    bell: Arc<EventFd>,
}

struct Entry {
    /// Dropped by what listens to the socket when it is over.
    source: Weak<dyn Source>,
    socket: Rc<OwnedFd>,
    /// Whether something waits until the other side reads.
    is_full: Cell<bool>,
}

/// How often to look before it is worth sleeping; a look takes about a microsecond.
const LOOKS: u32 = 100;
/// How often to look only where the last message came from before all sources are listened to: two
/// calls of the system become one, and another program waits a few microseconds longer.
const LOOKS_AT_RECENT: u32 = 4;

impl Poller {
    /// Makes the poller of a kernel, which has none yet.
    pub fn install(kernel: &Kernel) -> io::Result<Poller> {
        let bell = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
        let bell = Arc::new(bell);
        let poller = Poller(Rc::new(Inner {
            entries: RefCell::default(),
            recent: RefCell::default(),
            looks: Cell::new(0),
            bell: bell.clone(),
        }));
        kernel.set_outside(poller.0.clone(), move || {
            // It fails only if the bell has been rung 2⁶⁴ times and never heard.
            let _ = bell.write(1);
        });
        Ok(poller)
    }

    /// Listens to a socket from now on, until its source is dropped.
    pub fn add(&self, socket: Rc<OwnedFd>, source: &Rc<impl Source + 'static>) {
        let source: Rc<dyn Source> = source.clone();
        self.0.entries.borrow_mut().push(Entry {
            source: Rc::downgrade(&source),
            socket,
            is_full: Cell::new(false),
        });
    }
}

impl Inner {
    /// Takes in what has arrived. Returns whether anything had.
    fn hear(&self) -> bool {
        let recent = self.recent.borrow().as_ref().and_then(Weak::upgrade);
        if let Some(recent) = recent
            && self.looks.get() < LOOKS_AT_RECENT
        {
            self.looks.update(|looks| looks + 1);
            return recent.receive();
        }
        self.looks.set(0);
        let mut any = false;
        for source in self.heard() {
            if source.receive() {
                any = true;
                self.recent.replace(Some(Rc::downgrade(&source)));
            }
        }
        any
    }

    /// The sources that have something to say, or all of them if they are one.
    fn heard(&self) -> Vec<Rc<dyn Source>> {
        let entries = self.entries.borrow();
        if let [entry] = &entries[..] {
            return entry.source.upgrade().into_iter().collect();
        }
        let mut polled: Vec<PollFd<'_>> = entries.iter().map(Entry::polled).collect();
        let now = Some(TimeSpec::from_duration(Duration::ZERO));
        if !matches!(ppoll(&mut polled, now, None), Ok(1..)) {
            return Vec::new();
        }
        let heard = polled.iter().zip(entries.iter());
        heard
            .filter(|(polled, _)| polled.any().unwrap_or(true))
            .filter_map(|(_, entry)| entry.source.upgrade())
            .collect()
    }
}

impl Entry {
    fn polled(&self) -> PollFd<'_> {
        let mut wanted = PollFlags::POLLIN;
        wanted.set(PollFlags::POLLOUT, self.is_full.get());
        PollFd::new(self.socket.as_fd(), wanted)
    }
}

impl Outside for Inner {
    fn look(&self) -> bool {
        self.entries.borrow_mut().retain(|entry| {
            let source = entry.source.upgrade();
            if let Some(source) = &source {
                entry.is_full.set(source.flush());
            }
            source.is_some()
        });
        self.hear()
    }

    fn wait(&self, timeout: Option<Duration>) {
        let entries = self.entries.borrow();
        let mut polled: Vec<PollFd<'_>> = entries.iter().map(Entry::polled).collect();
        polled.push(PollFd::new(self.bell.as_fd(), PollFlags::POLLIN));
        let waited = ppoll(&mut polled, timeout.map(TimeSpec::from_duration), None);
        let is_rung = polled.last().and_then(PollFd::any).unwrap_or(false);
        if is_rung && !matches!(waited, Err(Errno::EINTR)) {
            let _ = self.bell.read();
        }
    }

    fn patience(&self) -> u32 {
        LOOKS
    }
}
