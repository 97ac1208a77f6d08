//! A process of its own for each seed, and what is known about it when it dies.

pub mod beacon;
pub mod last_words;
pub mod process;
