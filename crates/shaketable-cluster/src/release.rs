//! Which FoundationDB a program sees: the client of 7.4, or that of 8.0.
//!
//! The C library is one and the same for programs of both, so the API version that a program
//! selects decides: 800 exists only in a client of 8.0, and what is below stands for 7.4, which
//! most programs run with today. The two differ in the options that exist, in the meaning of a few
//! error codes, in what has been removed, and in small behaviours that are asked for by
//! `api_version_at_least(800)` where they happen. The cluster behind the client is the same.

/// The first API version of FoundationDB 8.0.
pub const API_VERSION_8_0: i32 = 800;

/// A release of FoundationDB's client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// 7.4, and everything that is older.
    V7_4,
    /// 8.0, without tenants and blob granules.
    V8_0,
}

impl Release {
    /// The client of a program that has selected this API version.
    pub fn of(api_version: i32) -> Release {
        if api_version < API_VERSION_8_0 {
            Release::V7_4
        } else {
            Release::V8_0
        }
    }
}
