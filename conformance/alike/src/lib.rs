//! Nothing. See Cargo.toml.
