//! Whole runs of test files without a library of their own: what is decided, kept and said.

mod cases;
mod cycle;
mod liveness;
mod seeds;
mod swarm;
