//! Waiting for time to pass.
//!
//! A sleep counts from the call that creates it and takes its place among equal timers there, not
//! when it is first polled, so that the order of events is the order of the calls. Dropping it
//! frees its timer.

use crate::kernel::Kernel;
use crate::time::Time;
use crate::timer::TimerId;
use std::future::Future;
use std::pin::{Pin, pin};
use std::task::{Context, Poll};

impl Kernel {
    /// Waits that many seconds, counted from this call. With zero or less it takes one trip through
    /// the ready queue; with more than the clock can express it never ends. Dropping the future
    /// costs almost nothing.
    pub fn sleep(&self, seconds: f64) -> Sleep {
        self.sleep_until(if seconds <= 0.0 {
            Time::ZERO
        } else {
            self.now().after(seconds)
        })
    }

    /// Waits until that moment; if it has passed, this takes one trip through the ready queue.
    pub fn sleep_until(&self, time: Time) -> Sleep {
        let state = if time == Time::NEVER {
            SleepState::Never
        } else if time <= self.now() {
            SleepState::Yield
        } else {
            SleepState::Timer(self.0.timers.borrow_mut().set_sleep(time))
        };
        Sleep {
            kernel: self.clone(),
            state,
        }
    }

    /// Lets everything else that is ready run first.
    pub fn yield_now(&self) -> Sleep {
        self.sleep(0.0)
    }

    /// Returns the output of the future, or `None` if it is not ready after that many seconds.
    pub fn timeout<F: Future>(
        &self,
        seconds: f64,
        future: F,
    ) -> impl Future<Output = Option<F::Output>> + use<F> {
        let mut sleep = self.sleep(seconds);
        async move {
            let mut future = pin!(future);
            std::future::poll_fn(move |cx| {
                if let Poll::Ready(output) = future.as_mut().poll(cx) {
                    return Poll::Ready(Some(output));
                }
                Pin::new(&mut sleep).poll(cx).map(|()| None)
            })
            .await
        }
    }
}

/// See [`Kernel::sleep`].
#[must_use = "a future does nothing unless it is awaited"]
#[derive(Debug)]
pub struct Sleep {
    kernel: Kernel,
    state: SleepState,
}

#[derive(Debug)]
enum SleepState {
    Yield,
    Never,
    Timer(TimerId),
    Over,
}

impl Future for Sleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        match self.state {
            SleepState::Yield => {
                cx.waker().wake_by_ref();
                self.state = SleepState::Over;
                Poll::Pending
            }
            SleepState::Never => Poll::Pending,
            SleepState::Timer(id) => {
                if self.kernel.0.timers.borrow_mut().poll_sleep(id, cx) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            }
            SleepState::Over => Poll::Ready(()),
        }
    }
}

impl Drop for Sleep {
    fn drop(&mut self) {
        if let SleepState::Timer(id) = self.state {
            let held = self.kernel.0.timers.borrow_mut().cancel(id);
            drop(held);
        }
    }
}
