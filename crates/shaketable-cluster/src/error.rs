//! FoundationDB's error codes, as values.
//!
//! An [`Error`] is one of FoundationDB's numbers and nothing more: a client can receive exactly
//! what `fdb_error_t` can carry. Internal failures (a connection that breaks, a shard that moved)
//! are retried inside the client and never become one of these.
//!
//! The constants name the codes that this engine produces. Names and texts exist for every code of
//! FoundationDB 7.4 ([`Error::name`], [`Error::message`]), because programs ask for the text of any
//! number they hold. A program that sees a client of 8.0 is told what the number means there:
//! [`message`], [`predicate`].

mod table;

use crate::release::Release;
use std::fmt;
use table::{CHANGED_IN_8_0, REMOVED_IN_8_0, TABLE};

/// One of FoundationDB's error codes. Never zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Error(pub i32);

/// Declares the constants and lists them for the test that compares them with the table.
macro_rules! codes {
    ($($name:ident = $code:literal,)*) => {
        #[allow(missing_docs)]
        impl Error {
            $(pub const $name: Error = Error($code);)*
        }

        #[cfg(test)]
        const CONSTANTS: &[(&str, i32)] = &[$((stringify!($name), $code),)*];
    };
}

codes! {
    OPERATION_FAILED = 1000,
    TIMED_OUT = 1004,
    TRANSACTION_TOO_OLD = 1007,
    FUTURE_VERSION = 1009,
    NOT_COMMITTED = 1020,
    COMMIT_UNKNOWN_RESULT = 1021,
    COMMIT_UNKNOWN_RESULT_FATAL = 1022,
    TRANSACTION_CANCELLED = 1025,
    WATCH_CANCELLED = 1029,
    TRANSACTION_TIMED_OUT = 1031,
    TOO_MANY_WATCHES = 1032,
    WATCHES_DISABLED = 1034,
    ACCESSED_UNREADABLE = 1036,
    PROCESS_BEHIND = 1037,
    DATABASE_LOCKED = 1038,
    CLUSTER_VERSION_CHANGED = 1039,
    COMMIT_PROXY_MEMORY_LIMIT_EXCEEDED = 1042,
    BATCH_TRANSACTION_THROTTLED = 1051,
    GRV_PROXY_MEMORY_LIMIT_EXCEEDED = 1078,
    BLOB_GRANULE_REQUEST_FAILED = 1079,
    BROKEN_PROMISE = 1100,
    OPERATION_CANCELLED = 1101,
    FUTURE_RELEASED = 1102,
    TAG_THROTTLED = 1213,
    PROXY_TAG_THROTTLED = 1223,
    TRANSACTION_THROTTLED_HOT_SHARD = 1235,
    TRANSACTION_REJECTED_RANGE_LOCKED = 1242,
    PLATFORM_ERROR = 1500,
    IO_ERROR = 1510,
    NO_CLUSTER_FILE_FOUND = 1515,
    CLIENT_INVALID_OPERATION = 2000,
    COMMIT_READ_INCOMPLETE = 2002,
    KEY_OUTSIDE_LEGAL_RANGE = 2004,
    INVERTED_RANGE = 2005,
    INVALID_OPTION_VALUE = 2006,
    INVALID_OPTION = 2007,
    NETWORK_NOT_SETUP = 2008,
    NETWORK_ALREADY_SETUP = 2009,
    READ_VERSION_ALREADY_SET = 2010,
    VERSION_INVALID = 2011,
    RANGE_LIMITS_INVALID = 2012,
    FUTURE_NOT_SET = 2015,
    FUTURE_NOT_ERROR = 2016,
    USED_DURING_COMMIT = 2017,
    INVALID_MUTATION_TYPE = 2018,
    TRANSACTION_INVALID_VERSION = 2020,
    NO_COMMIT_VERSION = 2021,
    ENVIRONMENT_VARIABLE_NETWORK_OPTION_FAILED = 2022,
    TRANSACTION_READ_ONLY = 2023,
    NETWORK_CANNOT_BE_RESTARTED = 2025,
    BLOCKED_FROM_NETWORK_THREAD = 2026,
    MAPPER_BAD_INDEX = 2030,
    MAPPER_NO_SUCH_KEY = 2031,
    MAPPER_BAD_RANGE_DECRIPTOR = 2032,
    QUICK_GET_KEY_VALUES_HAS_MORE = 2033,
    QUICK_GET_VALUE_MISS = 2034,
    QUICK_GET_KEY_VALUES_MISS = 2035,
    GET_MAPPED_KEY_VALUES_HAS_MORE = 2038,
    GET_MAPPED_RANGE_READS_YOUR_WRITES = 2039,
    KEY_NOT_TUPLE = 2041,
    VALUE_NOT_TUPLE = 2042,
    MAPPER_NOT_TUPLE = 2043,
    TRANSACTION_TOO_LARGE = 2101,
    KEY_TOO_LARGE = 2102,
    VALUE_TOO_LARGE = 2103,
    CONNECTION_STRING_INVALID = 2104,
    UNSUPPORTED_OPERATION = 2108,
    TOO_MANY_TAGS = 2109,
    TAG_TOO_LONG = 2110,
    SPECIAL_KEYS_CROSS_MODULE_READ = 2112,
    SPECIAL_KEYS_NO_MODULE_FOUND = 2113,
    SPECIAL_KEYS_WRITE_DISABLED = 2114,
    SPECIAL_KEYS_NO_WRITE_MODULE_FOUND = 2115,
    SPECIAL_KEYS_CROSS_MODULE_CLEAR = 2116,
    SPECIAL_KEYS_API_FAILURE = 2117,
    NO_EXTERNAL_CLIENT_PROVIDED = 2123,
    TENANT_NAME_REQUIRED = 2130,
    TENANT_NOT_FOUND = 2131,
    TENANT_ALREADY_EXISTS = 2132,
    TENANT_NOT_EMPTY = 2133,
    INVALID_TENANT_NAME = 2134,
    TENANTS_DISABLED = 2136,
    ILLEGAL_TENANT_ACCESS = 2138,
    TENANT_REMOVED = 2142,
    API_VERSION_UNSET = 2200,
    API_VERSION_ALREADY_SET = 2201,
    API_VERSION_INVALID = 2202,
    API_VERSION_NOT_SUPPORTED = 2203,
    EXACT_MODE_WITHOUT_LIMITS = 2210,
    UNKNOWN_ERROR = 4000,
    INTERNAL_ERROR = 4100,
    NOT_IMPLEMENTED = 4200,
}

impl Error {
    /// FoundationDB's name for the code, in snake case; `UNKNOWN_ERROR` if FoundationDB 7.4 has no
    /// such code.
    pub fn name(self) -> &'static str {
        entry(TABLE, self.0).map_or(UNKNOWN, |(_, name, _)| name)
    }

    /// The text that `fdb_get_error` returns for this code.
    pub fn message(self) -> &'static str {
        message(Release::V7_4, self.0)
    }

    /// Whether a retry loop should try again: `fdb_error_predicate` with `RETRYABLE`.
    pub fn is_retryable(self) -> bool {
        self.is_maybe_committed() || self.is_retryable_not_committed()
    }

    /// Whether the transaction may have committed although it failed: `MAYBE_COMMITTED`.
    pub fn is_maybe_committed(self) -> bool {
        matches!(
            self,
            Error::COMMIT_UNKNOWN_RESULT | Error::CLUSTER_VERSION_CHANGED
        )
    }

    /// Whether the transaction certainly did not commit and may be tried again:
    /// `RETRYABLE_NOT_COMMITTED`.
    pub fn is_retryable_not_committed(self) -> bool {
        matches!(
            self,
            Error::TRANSACTION_TOO_OLD
                | Error::FUTURE_VERSION
                | Error::NOT_COMMITTED
                | Error::PROCESS_BEHIND
                | Error::DATABASE_LOCKED
                | Error::COMMIT_PROXY_MEMORY_LIMIT_EXCEEDED
                | Error::BATCH_TRANSACTION_THROTTLED
                | Error::GRV_PROXY_MEMORY_LIMIT_EXCEEDED
                | Error::TAG_THROTTLED
                | Error::PROXY_TAG_THROTTLED
                | Error::TRANSACTION_THROTTLED_HOT_SHARD
                | Error::TRANSACTION_REJECTED_RANGE_LOCKED
        )
    }
}

/// Returns the text that `fdb_get_error` returns for any number: 0 is a success, a number that
/// cannot be a code counts as 4000, and a possible code that is not defined is `UNKNOWN_ERROR`.
pub fn message(release: Release, code: i32) -> &'static str {
    let code = if (0..=30_000).contains(&code) {
        code
    } else {
        Error::UNKNOWN_ERROR.0
    };
    entry_in(release, code).map_or(UNKNOWN, |(_, _, message)| message)
}

/// Returns what `fdb_error_predicate` returns: 50000, 50001 and 50002 are the three predicates; any
/// other number holds for no code. None of them holds for a code that the release does not have.
pub fn predicate(release: Release, predicate: i32, code: i32) -> bool {
    if entry_in(release, code).is_none() {
        return false;
    }
    match predicate {
        50_000 => Error(code).is_retryable(),
        50_001 => Error(code).is_maybe_committed(),
        50_002 => Error(code).is_retryable_not_committed(),
        _ => false,
    }
}

/// Every code of a release, including 0 for success.
pub fn all_codes(release: Release) -> impl Iterator<Item = i32> {
    let new = CHANGED_IN_8_0.iter().map(|(code, _, _)| *code);
    let new = new.filter(|code| entry(TABLE, *code).is_none());
    let old = TABLE.iter().map(|(code, _, _)| *code);
    old.chain(new)
        .filter(move |code| entry_in(release, *code).is_some())
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message(), self.0)
    }
}

impl std::error::Error for Error {}

const UNKNOWN: &str = "UNKNOWN_ERROR";

/// Code, name and text.
type Entry = (i32, &'static str, &'static str);

/// What a code means in a release, if it has it.
fn entry_in(release: Release, code: i32) -> Option<Entry> {
    match release {
        Release::V7_4 => entry(TABLE, code),
        Release::V8_0 if REMOVED_IN_8_0.iter().any(|codes| codes.contains(&code)) => None,
        Release::V8_0 => entry(CHANGED_IN_8_0, code).or_else(|| entry(TABLE, code)),
    }
}

fn entry(table: &[Entry], code: i32) -> Option<Entry> {
    table
        .binary_search_by_key(&code, |(code, _, _)| *code)
        .ok()
        .map(|index| table[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FoundationDB's own lists: code, name and the three predicates of each.
    const FACTS: &str = include_str!("../../../conformance/facts/errors.csv");
    const FACTS_OF_8_0: &str = include_str!("../../../conformance/facts/errors-8.0.csv");

    fn facts(of: &'static str) -> impl Iterator<Item = (i32, &'static str, [bool; 3])> {
        of.lines().skip(1).map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            (
                fields[0].parse().unwrap(),
                fields[1],
                [fields[2] == "1", fields[3] == "1", fields[4] == "1"],
            )
        })
    }

    #[test]
    fn every_code_has_the_name_and_the_predicates_of_foundationdb() {
        for (release, list, expected) in [
            (Release::V7_4, FACTS, 363),
            (Release::V8_0, FACTS_OF_8_0, 325),
        ] {
            let mut count = 0;
            for (code, name, predicates) in facts(list) {
                assert_eq!(entry_in(release, code).map(|(_, name, _)| name), Some(name));
                for (index, holds) in (0..).zip(predicates) {
                    assert_eq!(predicate(release, 50_000 + index, code), holds, "{name}");
                }
                count += 1;
            }
            assert_eq!(count, expected);
            assert_eq!(all_codes(release).count(), count);
        }
        assert!(CHANGED_IN_8_0.is_sorted_by_key(|(code, _, _)| *code));
    }

    #[test]
    fn a_code_means_what_the_release_of_the_program_says() {
        let told = |code| [Release::V7_4, Release::V8_0].map(|release| message(release, code));
        assert_eq!(told(2131), ["Tenant does not exist", UNKNOWN]);
        assert_eq!(told(1251)[0], UNKNOWN);
        assert!(told(1251)[1].starts_with("GRV request rejected"));
        let [before, since] = told(1249);
        assert_ne!(before, since);
        assert_eq!(told(1252)[1], before);
        assert!(predicate(Release::V7_4, 50_000, 1223));
        assert!(!predicate(Release::V8_0, 50_000, 1223));
    }

    #[test]
    fn constants_bear_the_names_of_their_codes() {
        for (constant, code) in CONSTANTS {
            assert_eq!(Error(*code).name().to_uppercase(), *constant);
        }
    }

    #[test]
    fn the_table_is_sorted_and_every_text_is_printable() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
        for (code, _, message) in TABLE {
            assert!(
                !message.is_empty() && message.chars().all(|c| (' '..='~').contains(&c)),
                "{code}"
            );
        }
    }

    #[test]
    fn texts_that_bindings_compare_are_foundationdbs_to_the_letter() {
        assert_eq!(message(Release::V7_4, 0), "Success");
        assert_eq!(
            Error::NOT_COMMITTED.message(),
            "Transaction not committed due to conflict with another transaction"
        );
        assert_eq!(
            Error::COMMIT_UNKNOWN_RESULT.message(),
            "Transaction may or may not have committed"
        );
        assert_eq!(
            Error::INVALID_TENANT_NAME.message(),
            r"Tenant name cannot begin with \xff"
        );
        assert_eq!(message(Release::V7_4, 1003), "Cold cache server");
    }

    #[test]
    fn a_number_that_is_no_code_has_a_text_too() {
        assert_eq!(message(Release::V7_4, 7), "UNKNOWN_ERROR");
        assert_eq!(message(Release::V7_4, 30_000), "UNKNOWN_ERROR");
        assert_eq!(message(Release::V7_4, -1), "An unknown error occurred");
        assert_eq!(message(Release::V7_4, 30_001), "An unknown error occurred");
        assert!(!predicate(Release::V7_4, 50_003, 1020));
        assert!(!predicate(Release::V7_4, 50_000, 7));
    }
}
