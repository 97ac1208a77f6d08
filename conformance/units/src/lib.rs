//! Nothing: the tests of this package are inside of other crates, see `Cargo.toml`.
