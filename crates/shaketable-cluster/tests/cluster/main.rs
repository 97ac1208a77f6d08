//! Whole clusters, and what their clients see of them.
//!
//! One program for all of these tests: they are compiled against the same library, so that none of
//! the simulated cluster is compiled for each of them again, and small ones run beside large ones.
//! Every test has kernels of its own, which know nothing of one another.

mod calibration;
mod client;
mod client_alone;
mod independence;
mod messages;
mod ranges;
mod recovery;
mod regions;
mod scale;
mod serializability;
mod survival;
mod unknown_results;
