//! Waiting for the first of two futures.

use pin_project_lite::pin_project;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

/// Which of two futures ended first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum First<A, B> {
    /// The first one given.
    Left(A),
    /// The second one given.
    Right(B),
}

/// Waits for the first of two futures and drops the other. If both are ready the left one wins.
pub fn first_of<A: Future, B: Future>(left: A, right: B) -> FirstOf<A, B> {
    FirstOf { left, right }
}

pin_project! {
    /// See [`first_of`]. Not an `async` block, which would reserve space for both futures twice.
    #[must_use = "nothing is waited for until this is awaited"]
    #[derive(Debug)]
    pub struct FirstOf<A, B> {
        #[pin]
        left: A,
        #[pin]
        right: B,
    }
}

impl<A: Future, B: Future> Future for FirstOf<A, B> {
    type Output = First<A::Output, B::Output>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        match this.left.poll(context) {
            Poll::Ready(output) => Poll::Ready(First::Left(output)),
            Poll::Pending => this.right.poll(context).map(First::Right),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kernel;

    #[test]
    fn the_earlier_one_wins_and_of_two_that_are_ready_the_left_one() {
        let kernel = Kernel::simulation(1);
        let both = first_of(std::future::ready(1), std::future::ready(2));
        assert_eq!(kernel.block_on(both), Ok(First::Left(1)));
        let right = first_of(kernel.sleep(2.0), kernel.sleep(1.0));
        assert_eq!(kernel.block_on(right), Ok(First::Right(())));
        assert_eq!(kernel.now().as_secs(), 1.0);
        assert_eq!(kernel.next_timer(), None, "the other one is dropped");
    }
}
