//! The promise a phase owes its host.

use shaketable_abi::v1::{FDBPromise, OpaquePromise};

/// A promise that is kept exactly once.
///
/// A promise dropped without [`send`](HostPromise::send) is broken, which aborts the whole run; so
/// every path of this crate sends.
pub(crate) struct HostPromise {
    inner: *mut OpaquePromise,
    send: unsafe extern "C" fn(*mut OpaquePromise, bool),
    free: unsafe extern "C" fn(*mut OpaquePromise),
}

impl HostPromise {
    /// Checks what the host handed over.
    ///
    /// # Safety
    ///
    /// `raw` is a promise of a v1 host that nothing else uses, or holds null pointers.
    pub(crate) unsafe fn new(raw: FDBPromise) -> Result<Self, &'static str> {
        // SAFETY: by the caller's promise the table is readable or null.
        let table = unsafe { raw.vt.as_ref() }.ok_or("its table is null")?;
        Ok(HostPromise {
            inner: raw.inner,
            send: table.send.ok_or("its table has no `send`")?,
            free: table.free.ok_or("its table has no `free`")?,
        })
    }

    /// Gives the host the verdict of the phase.
    pub(crate) fn send(self, verdict: bool) {
        // SAFETY: the promise is ours until `free`, and a value can be sent once: `self` is gone.
        unsafe { (self.send)(self.inner, verdict) };
    }
}

impl Drop for HostPromise {
    fn drop(&mut self) {
        // SAFETY: the promise is ours, and freed once.
        unsafe { (self.free)(self.inner) };
    }
}
