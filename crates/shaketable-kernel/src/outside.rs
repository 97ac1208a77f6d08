//! What a kernel on the machine's clock hears besides its own threads: sockets, say.
//!
//! A thread that waits for a socket and posts what it reads would add two switches of threads to
//! every message. So a kernel may be given an outside: when nothing is ready it looks there, and
//! waits there instead of merely sleeping. A kernel with a simulated clock never looks outside.

use crate::kernel::Kernel;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Where news come from that no thread posts. Called on the kernel's thread, between tasks.
pub trait Outside {
    /// Sends what waits to be sent and takes in what has arrived, without waiting. Returns whether
    /// anything had arrived.
    fn look(&self) -> bool;

    /// Waits until something can be sent or has arrived, until it is woken, or for `timeout`.
    fn wait(&self, timeout: Option<Duration>);

    /// How often to look before it is worth waiting.
    fn patience(&self) -> u32;
}

impl Kernel {
    /// Gives a kernel on the machine's clock an outside. `wake` is called on any thread and ends
    /// the wait that is under way.
    ///
    /// # Panics
    /// If the clock is simulated, or the kernel already has an outside.
    pub fn set_outside(&self, outside: Rc<dyn Outside>, wake: impl Fn() + Send + Sync + 'static) {
        assert!(!self.is_simulation(), "a simulation has no outside");
        self.0.ready.shared.set_wake(Arc::new(wake));
        self.0.outside.replace(Some(outside));
    }

    pub(crate) fn outside(&self) -> Option<Rc<dyn Outside>> {
        self.0.outside.borrow().clone()
    }
}
