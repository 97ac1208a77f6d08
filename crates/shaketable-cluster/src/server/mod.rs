//! The servers.
pub mod conflict_set;
pub mod versioned_map;
