//! A value, and the tasks that wait for it to change.

use super::notify::{Notified, Notify};
use std::cell::{Ref, RefCell};
use std::fmt;
use std::rc::Rc;

/// A value whose changes can be waited for. Clones share it.
#[derive(Default)]
pub struct AsyncVar<T>(Rc<AsyncVarState<T>>);

#[derive(Default)]
struct AsyncVarState<T> {
    value: RefCell<T>,
    changed: Notify,
}

impl<T> AsyncVar<T> {
    /// Creates a variable with that value.
    pub fn new(value: T) -> AsyncVar<T> {
        AsyncVar(Rc::new(AsyncVarState {
            value: RefCell::new(value),
            changed: Notify::new(),
        }))
    }

    /// Borrows the value. The guard must not live across an `await`.
    pub fn borrow(&self) -> Ref<'_, T> {
        self.0.value.borrow()
    }

    /// A copy of the value.
    pub fn get(&self) -> T
    where
        T: Clone,
    {
        self.0.value.borrow().clone()
    }

    /// Sets the value; if it differs from the old one, every task that waits is woken.
    pub fn set(&self, value: T)
    where
        T: PartialEq,
    {
        if *self.0.value.borrow() != value {
            self.replace(value);
        }
    }

    /// Sets the value and wakes every task that waits, even if it is equal to the old one. Returns
    /// the old value.
    pub fn replace(&self, value: T) -> T {
        let old = self.0.value.replace(value);
        self.0.changed.notify_all();
        old
    }

    /// Changes the value in place and wakes every task that waits.
    pub fn update<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.0.value.borrow_mut());
        self.0.changed.notify_all();
        result
    }

    /// Waits for the next change, counted from this call.
    pub fn on_change(&self) -> Notified {
        self.0.changed.notified()
    }

    /// Waits until the value satisfies the condition; returns at once if it already does.
    pub async fn wait_for(&self, mut condition: impl FnMut(&T) -> bool) {
        while !condition(&self.borrow()) {
            self.on_change().await;
        }
    }
}

impl<T> Clone for AsyncVar<T> {
    fn clone(&self) -> Self {
        AsyncVar(self.0.clone())
    }
}

impl<T: fmt::Debug> fmt::Debug for AsyncVar<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AsyncVar")
            .field(&self.0.value.borrow())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kernel, Priority, ProcessSpec};

    #[test]
    fn a_variable_tells_of_changes_and_keeps_silent_about_equal_values() {
        let kernel = Kernel::simulation(1);
        let variable = AsyncVar::new(1);
        let change = variable.on_change();
        variable.set(1);
        assert!(
            kernel
                .block_on(kernel.timeout(1.0, change))
                .unwrap()
                .is_none()
        );
        let change = variable.on_change();
        variable.clone().set(2);
        assert_eq!(kernel.block_on(change), Ok(()));
        let change = variable.on_change();
        assert_eq!(variable.replace(2), 2);
        assert_eq!(kernel.block_on(change), Ok(()));
        let change = variable.on_change();
        variable.update(|value| *value += 1);
        assert_eq!(kernel.block_on(change), Ok(()));
        assert_eq!(variable.get(), 3);
    }

    #[test]
    fn waiting_for_a_condition_ends_when_it_holds() {
        let kernel = Kernel::simulation(1);
        let process = kernel.add_process(ProcessSpec::default());
        let variable = AsyncVar::new(0);
        let (kernel2, variable2) = (kernel.clone(), variable.clone());
        kernel
            .spawn(process, Priority::DefaultDelay, async move {
                for n in 1..10 {
                    kernel2.sleep(1.0).await;
                    variable2.set(n);
                }
            })
            .detach();
        kernel.block_on(variable.wait_for(|n| *n >= 3)).unwrap();
        assert_eq!(kernel.now().as_secs(), 3.0);
    }
}
