//! Options: which codes exist, what values they take, and which error a bad one causes.
//!
//! FoundationDB checks an option twice. The *code* is checked when the application calls, and an
//! unknown one is `invalid_option` at once: [`find`], which knows what each release has. The
//! *value* is checked later, on the network thread, in the order of the calls, and a bad one
//! becomes the deferred error of the transaction or poisons the database handle:
//! [`TransactionOption::parse`], [`DatabaseOption::parse`]. Only network options are checked
//! completely at once: [`check_network_option`].
//!
//! Parsing needs no state. Where the legality of an option depends on what the transaction has done
//! so far (disabling read-your-writes after a read, for example), the transaction decides.

mod table;

pub use table::OptionInfo;

use crate::error::Error;
use crate::release::Release;
use bytes::Bytes;
use std::net::IpAddr;

/// The value of an option as the application passed it: nothing (a null pointer), or bytes.
pub type OptionValue = Option<Bytes>;

/// What kind of value an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parameter {
    /// No value; an empty one is tolerated.
    Flag,
    /// Eight bytes, little endian, signed.
    Int,
    /// Text.
    String,
    /// Any bytes.
    Bytes,
}

/// Where an option is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The network of the process.
    Network,
    /// A database handle.
    Database,
    /// A transaction.
    Transaction,
}

impl Scope {
    /// All options of the scope, in ascending order of codes.
    pub fn options(self) -> &'static [OptionInfo] {
        match self {
            Scope::Network => table::NETWORK,
            Scope::Database => table::DATABASE,
            Scope::Transaction => table::TRANSACTION,
        }
    }
}

/// Returns the option that has this code in a release, or `invalid_option`.
pub fn find(release: Release, scope: Scope, code: i32) -> Result<&'static OptionInfo, Error> {
    let option = find_in_any(scope, code)?;
    if option.only_in.is_none_or(|only| only == release) {
        Ok(option)
    } else {
        Err(Error::INVALID_OPTION)
    }
}

/// The same without regard to the release, for codes that have been checked.
pub(super) fn find_in_any(scope: Scope, code: i32) -> Result<&'static OptionInfo, Error> {
    let options = scope.options();
    let index = options.binary_search_by_key(&code, |option| option.code);
    index
        .map(|index| &options[index])
        .map_err(|_| Error::INVALID_OPTION)
}

/// A transaction option with a valid value. Those that change nothing in this engine are
/// [`TransactionOption::Accepted`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum TransactionOption {
    CausalWriteRisky,
    CausalReadRisky,
    IncludePortInAddress,
    NextWriteNoWriteConflictRange,
    ReadYourWritesDisable,
    PrioritySystemImmediate,
    PriorityBatch,
    InitializeNewDatabase,
    AccessSystemKeys,
    ReadSystemKeys,
    RawAccess,
    /// Sets the identifier and starts logging in one step.
    TransactionLoggingEnable(Bytes),
    DebugTransactionIdentifier(Bytes),
    LogTransaction,
    /// Milliseconds; 0 disables the timeout.
    Timeout(i32),
    /// -1 means no limit.
    RetryLimit(i32),
    /// Milliseconds.
    MaxRetryDelay(i32),
    /// Bytes.
    SizeLimit(i64),
    IdempotencyId(Bytes),
    AutomaticIdempotency,
    SnapshotRywEnable,
    SnapshotRywDisable,
    LockAware,
    UsedDuringCommitProtectionDisable,
    ReadLockAware,
    FirstInBatch,
    ReportConflictingKeys,
    SpecialKeySpaceRelaxed,
    SpecialKeySpaceEnableWrites,
    Tag(Bytes),
    AutoThrottleTag(Bytes),
    BypassUnreadable,
    UseGrvCache,
    /// Checked, then ignored: it tunes something that this engine does not have.
    Accepted,
}

impl TransactionOption {
    /// Returns the option that code and value stand for, or the error that FoundationDB defers:
    /// `invalid_option_value` in most cases, `invalid_option` for an idempotency id of the wrong
    /// length and for an unknown code.
    pub fn parse(code: i32, value: &OptionValue) -> Result<TransactionOption, Error> {
        use TransactionOption as T;
        find_in_any(Scope::Transaction, code)?;
        let flag = |option| absent(value).map(|()| option);
        match code {
            10 => flag(T::CausalWriteRisky),
            20 => flag(T::CausalReadRisky),
            23 => flag(T::IncludePortInAddress),
            30 => flag(T::NextWriteNoWriteConflictRange),
            51 => flag(T::ReadYourWritesDisable),
            200 => flag(T::PrioritySystemImmediate),
            201 => flag(T::PriorityBatch),
            300 => flag(T::InitializeNewDatabase),
            301 => flag(T::AccessSystemKeys),
            302 => flag(T::ReadSystemKeys),
            303 => flag(T::RawAccess),
            402 => identifier(value).map(T::TransactionLoggingEnable),
            403 => identifier(value).map(T::DebugTransactionIdentifier),
            404 => flag(T::LogTransaction),
            405 => match int(value, -1, i32::MAX.into())? {
                0 => Err(Error::INVALID_OPTION_VALUE),
                _ => Ok(T::Accepted),
            },
            500 => small_int(value, 0).map(T::Timeout),
            501 => small_int(value, -1).map(T::RetryLimit),
            502 => small_int(value, 0).map(T::MaxRetryDelay),
            503 => int(value, 32, 10_000_000).map(T::SizeLimit),
            504 => match present(value)? {
                id if (16..=255).contains(&id.len()) => Ok(T::IdempotencyId(id)),
                _ => Err(Error::INVALID_OPTION),
            },
            505 => flag(T::AutomaticIdempotency),
            600 => flag(T::SnapshotRywEnable),
            601 => flag(T::SnapshotRywDisable),
            700 => flag(T::LockAware),
            701 => flag(T::UsedDuringCommitProtectionDisable),
            702 => flag(T::ReadLockAware),
            710 => flag(T::FirstInBatch),
            712 => flag(T::ReportConflictingKeys),
            713 => flag(T::SpecialKeySpaceRelaxed),
            714 => flag(T::SpecialKeySpaceEnableWrites),
            800 => tag(value).map(T::Tag),
            801 => tag(value).map(T::AutoThrottleTag),
            900 => match present(value)?.len() {
                33 => Ok(T::Accepted),
                _ => Err(Error::INVALID_OPTION_VALUE),
            },
            1100 => flag(T::BypassUnreadable),
            1101 => flag(T::UseGrvCache),
            // No request waits in a queue here, so none is refused for it.
            1103 => int(value, 0, i32::MAX.into()).map(|_| T::Accepted),
            4001 => int(value, -2, i64::MAX).map(|_| T::Accepted),
            // FoundationDB's setters for these never look at the value.
            21 | 110 | 120 | 130 | 304 | 401 | 507..=511 | 2000 => Ok(T::Accepted),
            _ => flag(T::Accepted),
        }
    }
}

/// A database option with a valid value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum DatabaseOption {
    /// The default of a transaction option. Its value is checked only when a transaction adopts it,
    /// so a bad one surfaces there.
    TransactionDefault {
        code: i32,
        value: OptionValue,
    },
    MaxWatches(i32),
    SnapshotRywEnable,
    SnapshotRywDisable,
    /// Checked, then ignored: it tunes something that this engine does not have.
    Accepted,
}

impl DatabaseOption {
    /// Returns the option that code and value stand for, or the error that every operation of the
    /// handle fails with from now on.
    pub fn parse(code: i32, value: &OptionValue) -> Result<DatabaseOption, Error> {
        if let Some(code) = find_in_any(Scope::Database, code)?.default_for {
            return Ok(DatabaseOption::TransactionDefault {
                code,
                value: value.clone(),
            });
        }
        match code {
            10 => int(value, 0, i32::MAX.into()).map(|_| DatabaseOption::Accepted),
            20 => int(value, 0, 1_000_000).map(|limit| DatabaseOption::MaxWatches(limit as i32)),
            26 => absent(value).map(|()| DatabaseOption::SnapshotRywEnable),
            27 => absent(value).map(|()| DatabaseOption::SnapshotRywDisable),
            800 => absent(value).map(|()| DatabaseOption::Accepted),
            900 => int(value, 0, 100).map(|_| DatabaseOption::Accepted),
            _ => Ok(DatabaseOption::Accepted),
        }
    }
}

/// Checks the code and value of a network option at once. Valid options are accepted; this engine
/// has no use for most of them.
pub fn check_network_option(release: Release, code: i32, value: &OptionValue) -> Result<(), Error> {
    find(release, Scope::Network, code)?;
    let bad = Err(Error::INVALID_OPTION_VALUE);
    match code {
        31 | 32 => int(value, 0, i64::MAX).map(drop),
        34 if !matches!(&present(value)?[..], b"xml" | b"json") => bad,
        35 if !matches!(&present(value)?[..], b"now" | b"realtime") => bad,
        36 => {
            let name = present(value)?;
            let legal = name.iter().all(|c| c.is_ascii_alphanumeric() || *c == b'_');
            if legal && name.len() <= 50 {
                Ok(())
            } else {
                bad
            }
        }
        40 if !present(value)?.contains(&b'=') => bad,
        39 | 41..=47 | 52..=54 | 62 | 63 | 66 | 91 => present(value).map(drop),
        50 | 51 | 82 | 83 => int(value, 0, 100).map(drop),
        61 | 64 | 70 | 71 => absent(value),
        65 => int(value, 1, 1024).map(drop),
        84 => match std::str::from_utf8(&present(value)?).map(str::parse::<IpAddr>) {
            Ok(Ok(_)) => Ok(()),
            _ => bad,
        },
        90 => match &present(value)?[..] {
            b"none" | b"disabled" | b"logfile" | b"file" | b"log_file" | b"network_lossy" => Ok(()),
            _ => bad,
        },
        _ => Ok(()),
    }
}

/// Parses the number of an integer option.
fn int(value: &OptionValue, min: i64, max: i64) -> Result<i64, Error> {
    let bytes = present(value)?;
    let bytes: [u8; 8] = bytes[..]
        .try_into()
        .map_err(|_| Error::INVALID_OPTION_VALUE)?;
    let number = i64::from_le_bytes(bytes);
    (min..=max)
        .contains(&number)
        .then_some(number)
        .ok_or(Error::INVALID_OPTION_VALUE)
}

/// Parses a number that FoundationDB keeps in a C `int`.
fn small_int(value: &OptionValue, min: i64) -> Result<i32, Error> {
    int(value, min, i32::MAX.into()).map(|number| number as i32)
}

fn present(value: &OptionValue) -> Result<Bytes, Error> {
    value.clone().ok_or(Error::INVALID_OPTION_VALUE)
}

fn absent(value: &OptionValue) -> Result<(), Error> {
    match value {
        Some(bytes) if !bytes.is_empty() => Err(Error::INVALID_OPTION_VALUE),
        _ => Ok(()),
    }
}

/// Parses the name under which a transaction is logged.
fn identifier(value: &OptionValue) -> Result<Bytes, Error> {
    let name = present(value)?;
    if (1..=100).contains(&name.len()) {
        Ok(name)
    } else {
        Err(Error::INVALID_OPTION_VALUE)
    }
}

/// Parses a throttling tag. The transaction counts how many it has: see [`TAGS_MAX`].
fn tag(value: &OptionValue) -> Result<Bytes, Error> {
    let tag = present(value)?;
    if tag.len() <= 255 {
        Ok(tag)
    } else {
        Err(Error::TAG_TOO_LONG)
    }
}

/// How many different tags a transaction may have; one more is `too_many_tags`.
pub const TAGS_MAX: usize = 5;

#[cfg(test)]
mod tests {
    use super::*;

    /// FoundationDB's own list of options.
    const FACTS: &str = include_str!("../../../../conformance/facts/options.csv");

    fn some(bytes: &[u8]) -> OptionValue {
        Some(Bytes::copy_from_slice(bytes))
    }

    fn check_network(code: i32, value: &OptionValue) -> Result<(), Error> {
        check_network_option(Release::V7_4, code, value)
    }

    fn number(number: i64) -> OptionValue {
        some(&number.to_le_bytes())
    }

    #[test]
    fn the_tables_hold_exactly_the_options_of_foundationdb() {
        for ((release, column), (scope, name)) in each_release_and_scope() {
            let mut codes = std::collections::BTreeSet::new();
            for line in FACTS.lines().skip(1) {
                let field: Vec<&str> = line.split(',').collect();
                if field[0] != name || field[column] != "1" {
                    continue;
                }
                let code = field[1].parse().unwrap();
                let first_of_its_code = codes.insert(code);
                let option = find(release, scope, code).unwrap();
                let parameter = match field[3] {
                    "none" => Parameter::Flag,
                    "Int" => Parameter::Int,
                    "String" => Parameter::String,
                    _ => Parameter::Bytes,
                };
                assert_eq!(option.parameter, parameter, "{line}");
                assert_eq!(option.persistent, field[4] == "1", "{line}");
                assert_eq!(option.default_for, field[7].parse().ok(), "{line}");
                if first_of_its_code {
                    assert_eq!(option.name, field[2], "{line}");
                }
            }
            let known = scope.options().iter().filter(|option| {
                let only = option.only_in;
                only.is_none_or(|only| only == release)
            });
            assert_eq!(known.count(), codes.len());
            assert!(scope.options().is_sorted_by_key(|option| option.code));
        }
    }

    /// Each release with its column of the facts, and each scope with its name there.
    fn each_release_and_scope() -> impl Iterator<Item = ((Release, usize), (Scope, &'static str))> {
        let scopes = [
            (Scope::Network, "NetworkOption"),
            (Scope::Database, "DatabaseOption"),
            (Scope::Transaction, "TransactionOption"),
        ];
        let releases = [(Release::V7_4, 10), (Release::V8_0, 11)];
        releases
            .into_iter()
            .flat_map(move |release| scopes.map(|scope| (release, scope)))
    }

    #[test]
    fn an_unknown_code_is_refused_in_every_scope() {
        for ((release, _), (scope, _)) in each_release_and_scope() {
            for code in [-1, 0, 1, 17, 9999] {
                assert_eq!(find(release, scope, code), Err(Error::INVALID_OPTION));
            }
        }
        assert_eq!(
            TransactionOption::parse(17, &None),
            Err(Error::INVALID_OPTION)
        );
        assert_eq!(DatabaseOption::parse(17, &None), Err(Error::INVALID_OPTION));
        assert_eq!(check_network(17, &None), Err(Error::INVALID_OPTION));
    }

    #[test]
    fn a_number_needs_eight_bytes_and_its_range() {
        let timeout = |value| TransactionOption::parse(500, &value);
        assert_eq!(timeout(number(0)), Ok(TransactionOption::Timeout(0)));
        assert_eq!(
            timeout(number(i32::MAX.into())),
            Ok(TransactionOption::Timeout(i32::MAX))
        );
        for bad in [
            None,
            some(b""),
            some(b"\x01"),
            some(&[0; 9]),
            number(-1),
            number(1 << 31),
        ] {
            assert_eq!(timeout(bad), Err(Error::INVALID_OPTION_VALUE));
        }
        assert_eq!(
            TransactionOption::parse(501, &number(-1)),
            Ok(TransactionOption::RetryLimit(-1))
        );
        assert_eq!(
            TransactionOption::parse(501, &number(-2)),
            Err(Error::INVALID_OPTION_VALUE)
        );
        assert_eq!(
            TransactionOption::parse(503, &number(32)),
            Ok(TransactionOption::SizeLimit(32))
        );
        assert_eq!(
            TransactionOption::parse(503, &number(31)),
            Err(Error::INVALID_OPTION_VALUE)
        );
        assert_eq!(
            TransactionOption::parse(503, &number(10_000_001)),
            Err(Error::INVALID_OPTION_VALUE)
        );
    }

    #[test]
    fn an_option_without_a_value_tolerates_an_empty_one() {
        for option in Scope::Transaction.options() {
            if option.parameter == Parameter::Flag {
                assert!(
                    TransactionOption::parse(option.code, &None).is_ok(),
                    "{}",
                    option.name
                );
                assert!(
                    TransactionOption::parse(option.code, &some(b"")).is_ok(),
                    "{}",
                    option.name
                );
            }
        }
        assert_eq!(
            TransactionOption::parse(51, &some(b"1")),
            Err(Error::INVALID_OPTION_VALUE)
        );
        assert_eq!(
            DatabaseOption::parse(26, &some(b"1")),
            Err(Error::INVALID_OPTION_VALUE)
        );
    }

    #[test]
    fn lengths_of_ids_and_tags_are_checked() {
        let parse =
            |code, length: usize| TransactionOption::parse(code, &some(&vec![b'x'; length])).err();
        assert_eq!(parse(504, 15), Some(Error::INVALID_OPTION));
        assert_eq!(parse(504, 16), None);
        assert_eq!(parse(504, 256), Some(Error::INVALID_OPTION));
        assert_eq!(parse(403, 0), Some(Error::INVALID_OPTION_VALUE));
        assert_eq!(parse(403, 101), Some(Error::INVALID_OPTION_VALUE));
        assert_eq!(parse(800, 255), None);
        assert_eq!(parse(800, 256), Some(Error::TAG_TOO_LONG));
        assert_eq!(parse(900, 32), Some(Error::INVALID_OPTION_VALUE));
    }

    #[test]
    fn a_default_for_transactions_is_kept_unchecked() {
        let bad = number(-5);
        assert_eq!(
            DatabaseOption::parse(500, &bad),
            Ok(DatabaseOption::TransactionDefault {
                code: 500,
                value: bad.clone()
            })
        );
        assert_eq!(
            DatabaseOption::parse(702, &None),
            Ok(DatabaseOption::TransactionDefault {
                code: 712,
                value: None
            })
        );
        assert_eq!(
            DatabaseOption::parse(20, &number(7)),
            Ok(DatabaseOption::MaxWatches(7))
        );
        assert_eq!(
            DatabaseOption::parse(20, &number(1_000_001)),
            Err(Error::INVALID_OPTION_VALUE)
        );
    }

    #[test]
    fn network_options_are_checked_whole() {
        assert_eq!(check_network(30, &None), Ok(()));
        assert_eq!(check_network(40, &some(b"name=value")), Ok(()));
        assert_eq!(
            check_network(40, &some(b"name")),
            Err(Error::INVALID_OPTION_VALUE)
        );
        assert_eq!(check_network(34, &some(b"json")), Ok(()));
        assert_eq!(
            check_network(34, &some(b"text")),
            Err(Error::INVALID_OPTION_VALUE)
        );
        assert_eq!(
            check_network(82, &number(101)),
            Err(Error::INVALID_OPTION_VALUE)
        );
        assert_eq!(check_network(82, &number(25)), Ok(()));
    }

    #[test]
    fn an_option_of_the_other_release_does_not_exist() {
        use Scope::{Database, Network, Transaction};
        let (old, new) = (Release::V7_4, Release::V8_0);
        for (scope, code, has, lacks) in [
            (Network, 84, new, old),
            (Transaction, 1103, new, old),
            (Database, 800, old, new),
        ] {
            assert!(find(has, scope, code).is_ok(), "{code}");
            assert_eq!(find(lacks, scope, code), Err(Error::INVALID_OPTION));
        }
        let trace_ip = |value| check_network_option(new, 84, &value);
        assert_eq!(trace_ip(some(b"10.0.0.1")), Ok(()));
        assert_eq!(trace_ip(some(b"::1")), Ok(()));
        for bad in [None, some(b""), some(b"10.0.0"), some(b"\xff")] {
            assert_eq!(trace_ip(bad), Err(Error::INVALID_OPTION_VALUE));
        }
        let delay = |value| TransactionOption::parse(1103, &value);
        assert_eq!(delay(number(0)), Ok(TransactionOption::Accepted));
        for bad in [None, number(-1), number(1 << 31)] {
            assert_eq!(delay(bad), Err(Error::INVALID_OPTION_VALUE));
        }
    }
}
