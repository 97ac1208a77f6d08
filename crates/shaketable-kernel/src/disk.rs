//! Disks: what survives when a process dies.
//!
//! Nothing is serialised: a disk holds Rust values by name, just as the network carries them. It
//! models the one property that matters to the code above it, which values are there after a
//! reboot, and leaves layout to real disks.

use crate::kernel::{Kernel, WeakKernel};
use crate::random::Stream;
use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

/// Named values that survive a reboot of their process and are lost when its disk is deleted.
///
/// What is written here is durable at once. A real disk takes time, and the writer must account for
/// that: first [`Disk::sync`], then write.
#[derive(Clone)]
pub struct Disk {
    kernel: WeakKernel,
    slots: Rc<RefCell<BTreeMap<String, Rc<dyn Any>>>>,
    stream: Stream,
}

impl fmt::Debug for Disk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Disk")
            .field("slots", &self.slots.borrow().keys())
            .finish()
    }
}

impl Disk {
    pub(crate) fn new(kernel: &Kernel) -> Disk {
        Disk {
            kernel: kernel.downgrade(),
            slots: Rc::default(),
            stream: kernel.stream("disk"),
        }
    }

    /// Returns the value of that name, created by `create` if there is none. To change it later,
    /// choose a type with a `Cell` or `RefCell` inside.
    ///
    /// # Panics
    /// If the name holds a value of another type.
    pub fn open<T: 'static>(&self, name: &str, create: impl FnOnce() -> T) -> Rc<T> {
        if let Some(value) = self.get(name) {
            return value;
        }
        let value = Rc::new(create());
        self.slots
            .borrow_mut()
            .insert(name.to_owned(), value.clone());
        value
    }

    /// Returns the value of that name.
    ///
    /// # Panics
    /// If the name holds a value of another type.
    pub fn get<T: 'static>(&self, name: &str) -> Option<Rc<T>> {
        let value = self.slots.borrow().get(name)?.clone();
        match value.downcast() {
            Ok(value) => Some(value),
            Err(_) => panic!(
                "the disk holds something else than a {} under {name:?}",
                std::any::type_name::<T>()
            ),
        }
    }

    /// Sets the value of a name.
    pub fn put<T: 'static>(&self, name: &str, value: T) {
        let old = self
            .slots
            .borrow_mut()
            .insert(name.to_owned(), Rc::new(value));
        drop(old);
    }

    /// Deletes a name. Returns whether it was there.
    pub fn remove(&self, name: &str) -> bool {
        let old = self.slots.borrow_mut().remove(name);
        old.is_some()
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<String> {
        self.slots.borrow().keys().cloned().collect()
    }

    /// Takes as long as a disk takes to make data durable: 5 to 15 ms in a simulation, no time
    /// otherwise.
    pub async fn sync(&self) {
        if let Some(kernel) = self.kernel.upgrade() {
            let seconds = if kernel.is_simulation() {
                self.stream.range(0.005, 0.015)
            } else {
                0.0
            };
            kernel.sleep(seconds).await;
        }
    }

    pub(crate) fn wipe(&self) {
        let slots = std::mem::take(&mut *self.slots.borrow_mut());
        drop(slots);
    }
}
