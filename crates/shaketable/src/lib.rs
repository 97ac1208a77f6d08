//! Write FoundationDB simulation workloads in async Rust.
