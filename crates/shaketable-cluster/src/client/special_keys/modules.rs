//! The modules of the special key space, the ranges inside them, and what each range holds.

use super::{Host, State, contains};
use crate::data::key::KeyBound;
use crate::error::Error;
use crate::proto::{Key, KeyRange, KeyValue, Mutation, MutationKind, Value};
use bytes::Bytes;

/// What a range is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    ReadConflictRange,
    WriteConflictRange,
    ConflictingKeys,
    StatusJson,
    ConnectionString,
    ClusterFilePath,
    ClusterId,
    ErrorMessage,
    Tracing,
    Coordinators,
    Lock,
    /// Switches for other management commands; they are remembered for the transaction and have no
    /// other effect.
    Options,
    /// A view of running actors, for which a reader must name a process; this cluster has none to
    /// show.
    ActorLineage,
    /// Tenants, which are disabled in this cluster.
    Tenants,
    /// Something that this cluster does not have, with the name of the command that would write it.
    Nothing(&'static str),
}

/// A range of keys that is served by one piece of code.
#[derive(Clone, Debug)]
pub(super) struct Range {
    pub(super) keys: KeyRange,
    pub(super) kind: Kind,
    pub(super) writable: bool,
}

/// The three keys that could be read before API version 630.
pub(super) const LEGACY_KEYS: [&[u8]; 3] = [
    b"\xff\xff/status/json",
    b"\xff\xff/cluster_file_path",
    b"\xff\xff/connection_string",
];
/// The one range that could be read before then.
pub(super) const LEGACY_WORKER_INTERFACES: &[u8] = b"\xff\xff/worker_interfaces";

/// Modules, in no particular order: a name that ends in a slash is everything below it, any other a
/// single key.
const MODULES: [&str; 14] = [
    "transaction/",
    "worker_interfaces/",
    "status/json",
    "connection_string",
    "cluster_file_path",
    "metrics/",
    "management/",
    "error_message",
    "configuration/",
    "global_config/",
    "tracing/",
    "actor_lineage/",
    "actor_profiler_conf/",
    "cluster_id",
];

/// Ranges: name, first API version with it, first API version without it, whether it can be
/// written, what it is.
#[rustfmt::skip]
const RANGES: [(&str, i32, i32, bool, Kind); 34] = [
    ("transaction/conflicting_keys/", 630, i32::MAX, false, Kind::ConflictingKeys),
    ("transaction/read_conflict_range/", 630, i32::MAX, false, Kind::ReadConflictRange),
    ("transaction/write_conflict_range/", 630, i32::MAX, false, Kind::WriteConflictRange),
    ("worker_interfaces/", 630, i32::MAX, false, Kind::Nothing("worker_interfaces")),
    ("status/json", 630, i32::MAX, false, Kind::StatusJson),
    ("connection_string", 630, i32::MAX, false, Kind::ConnectionString),
    ("cluster_file_path", 630, i32::MAX, false, Kind::ClusterFilePath),
    ("cluster_id", 630, i32::MAX, false, Kind::ClusterId),
    ("metrics/data_distribution_stats/", 630, i32::MAX, false, Kind::Nothing("metrics")),
    ("metrics/health/", 630, i32::MAX, false, Kind::Nothing("metrics")),
    ("metrics/fault_tolerance_metrics_json", 740, i32::MAX, false, Kind::Nothing("metrics")),
    ("management/tenant/", 630, 800, true, Kind::Tenants),
    ("management/options/", 700, i32::MAX, true, Kind::Options),
    ("management/excluded/", 700, i32::MAX, true, Kind::Nothing("exclude")),
    ("management/failed/", 700, i32::MAX, true, Kind::Nothing("exclude failed")),
    ("management/excluded_locality/", 700, i32::MAX, true, Kind::Nothing("exclude locality")),
    ("management/failed_locality/", 700, i32::MAX, true, Kind::Nothing("exclude failed locality")),
    ("management/in_progress_exclusion/", 700, i32::MAX, false, Kind::Nothing("exclude")),
    ("management/db_locked", 700, i32::MAX, true, Kind::Lock),
    ("management/consistency_check_suspended", 700, i32::MAX, true, Kind::Nothing("consistencycheck")),
    ("management/auto_coordinators", 700, i32::MAX, false, Kind::Nothing("auto_coordinators")),
    ("management/min_required_commit_version", 700, i32::MAX, true, Kind::Nothing("advanceversion")),
    ("management/version_epoch", 700, i32::MAX, true, Kind::Nothing("versionepoch")),
    ("management/profiling/", 700, 720, true, Kind::Nothing("profile client")),
    ("management/maintenance/", 700, i32::MAX, true, Kind::Nothing("maintenance")),
    ("management/data_distribution/", 700, i32::MAX, true, Kind::Nothing("datadistribution")),
    ("error_message", 700, i32::MAX, false, Kind::ErrorMessage),
    ("configuration/process/class_type/", 700, i32::MAX, true, Kind::Nothing("setclass")),
    ("configuration/process/class_source/", 700, i32::MAX, false, Kind::Nothing("setclass")),
    ("configuration/coordinators/", 700, i32::MAX, true, Kind::Coordinators),
    ("global_config/", 700, i32::MAX, true, Kind::Nothing("global_config")),
    ("tracing/", 700, i32::MAX, true, Kind::Tracing),
    ("actor_lineage/", 700, i32::MAX, false, Kind::ActorLineage),
    ("actor_profiler_conf/", 700, i32::MAX, true, Kind::Nothing("actor_profiler_conf")),
];

/// The ranges whose rows are database keys behind a prefix; they reach up to `\xff\xff` behind it.
const KEYS_BEHIND_PREFIX: [&str; 4] = [
    "transaction/conflicting_keys/",
    "transaction/read_conflict_range/",
    "transaction/write_conflict_range/",
    "metrics/data_distribution_stats/",
];
/// The commands that have a switch in `management/options/`.
const OPTIONS: [&str; 5] = [
    "excluded/force",
    "failed/force",
    "excluded_locality/force",
    "failed_locality/force",
    "worker_interfaces/verify",
];
/// Set while the database is locked: ten bytes of stamp, sixteen of identity.
const DATABASE_LOCKED_KEY: &[u8] = b"\xff/dbLocked";

/// The keys of all modules.
pub(super) fn modules() -> impl Iterator<Item = KeyRange> {
    MODULES.iter().map(|name| keys_of(name))
}

/// All ranges that exist at an API version, sorted by their keys.
pub(super) fn ranges(api_version: i32) -> Vec<Range> {
    let mut ranges: Vec<Range> = RANGES
        .into_iter()
        .filter(|(_, since, until, ..)| (*since..*until).contains(&api_version))
        .map(|(name, _, _, writable, kind)| Range {
            keys: keys_of(name),
            kind,
            writable,
        })
        .collect();
    ranges.sort_by(|a, b| a.keys.cmp(&b.keys));
    ranges
}

/// The rows of a range that lie in `part` of it, in ascending order.
pub(super) async fn rows(
    host: &impl Host,
    range: &Range,
    part: KeyRange,
) -> Result<Vec<KeyValue>, Error> {
    let prefix = &range.keys.begin;
    let single = |value: Option<Value>| {
        value
            .map(|value| KeyValue {
                key: prefix.clone(),
                value,
            })
            .into_iter()
            .collect()
    };
    let mut rows: Vec<KeyValue> = match range.kind {
        Kind::ReadConflictRange => {
            host.pending_reads().await?;
            boundaries(prefix, host.read_conflict_ranges())
        }
        Kind::WriteConflictRange => boundaries(prefix, host.write_conflict_ranges()),
        Kind::ConflictingKeys => boundaries(prefix, host.conflicting_keys()),
        Kind::StatusJson => {
            host.connected().await;
            single(Some(host.cluster().status_json().into()))
        }
        Kind::ConnectionString => single(Some(host.cluster().connection_string.into())),
        Kind::ClusterFilePath => single(Some(host.cluster().cluster_file_path.into())),
        Kind::ClusterId => single(Some(format!("{:032x}", host.cluster().cluster_id).into())),
        Kind::ErrorMessage => single(host.special().borrow().error_message.clone()),
        Kind::Tracing => {
            let state = host.special().borrow();
            let [high, low] = state.trace_id;
            vec![
                row(prefix, "token", state.trace_token.to_string()),
                row(prefix, "transaction_id", format!("{high:016x}{low:016x}")),
            ]
        }
        Kind::Coordinators => {
            let cluster = host.cluster();
            vec![
                row(
                    prefix,
                    "cluster_description",
                    cluster.description().to_string(),
                ),
                row(prefix, "processes", cluster.coordinators().join(",")),
            ]
        }
        Kind::Lock => {
            let stored = host
                .read_system_key(Bytes::from_static(DATABASE_LOCKED_KEY))
                .await?;
            single(stored.map(|stored| hex(stored.get(10..).unwrap_or_default())))
        }
        Kind::ActorLineage => {
            let reason =
                "a reader must name an index and a process, and this cluster samples no actors";
            return Err(fail(host, "read actor_lineage", reason));
        }
        Kind::Options | Kind::Tenants | Kind::Nothing(_) => Vec::new(),
    };
    // The identity of the transaction takes effect at once or never.
    let is_overlaid = range.kind != Kind::Tracing;
    if is_overlaid && (host.is_read_your_writes() || range.kind == Kind::Options) {
        overlay(&mut rows, &host.special().borrow(), &part);
    }
    rows.retain(|row| contains(&part, &row.key));
    Ok(rows)
}

/// Sets a key in a range that can be written.
pub(super) fn set(host: &impl Host, kind: Kind, key: Key, value: Value) -> Result<(), Error> {
    match kind {
        Kind::Tracing if host.approximate_size() > 0 => {
            fail(
                host,
                "configure trace",
                "tracing must be configured before anything else is done",
            );
            // What was written is not kept; that something was makes the commit fail.
            host.special().borrow_mut().writes.insert(key, None);
            return Ok(());
        }
        Kind::Tracing => return set_tracing(host, &key, &value),
        Kind::Options if !is_option(&key) => return Ok(()),
        _ => {}
    }
    host.special().borrow_mut().writes.insert(key, Some(value));
    Ok(())
}

/// Clears keys in a range that can be written.
pub(super) fn clear(host: &impl Host, kind: Kind, keys: KeyRange) -> Result<(), Error> {
    if kind == Kind::Tracing {
        return Err(fail(
            host,
            "clear trace",
            "a transaction cannot lose its identity",
        ));
    }
    let mut state = host.special().borrow_mut();
    if kind == Kind::Options {
        state.writes.retain(|key, _| !contains(&keys, key));
        return Ok(());
    }
    for (_, value) in state.writes.range_mut(keys.begin.clone()..keys.end) {
        *value = None;
    }
    state.writes.insert(keys.begin, None);
    Ok(())
}

/// Carries out what was written to ranges of this kind.
pub(super) async fn commit(host: &impl Host, kind: Kind) -> Result<(), Error> {
    match kind {
        Kind::Lock => commit_lock(host).await,
        Kind::Tenants => Err(Error::TENANTS_DISABLED),
        // The message already gives the reason.
        Kind::Tracing => Err(Error::SPECIAL_KEYS_API_FAILURE),
        Kind::Coordinators => Err(fail(host, "coordinators", UNSUPPORTED)),
        Kind::Nothing(command) => Err(fail(host, command, UNSUPPORTED)),
        _ => Ok(()),
    }
}

const UNSUPPORTED: &str = "not supported by an embedded cluster";

/// The keys under a name: one key, or all that begin with a name that ends in a slash.
fn keys_of(name: &str) -> KeyRange {
    let begin: Key = [super::BEGIN, b"/", name.as_bytes()].concat().into();
    let mut end = begin.to_vec();
    if KEYS_BEHIND_PREFIX.contains(&name) {
        end.extend(b"\xff\xff");
    } else if name.ends_with('/') {
        end.pop();
        end.push(b'0');
    } else {
        end.push(0);
    }
    KeyRange {
        begin,
        end: end.into(),
    }
}

fn row(prefix: &Key, name: &str, value: String) -> KeyValue {
    KeyValue {
        key: [prefix, name.as_bytes()].concat().into(),
        value: value.into(),
    }
}

fn hex(bytes: &[u8]) -> Value {
    bytes
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect::<String>()
        .into()
}

/// Ranges as rows: each begins with a one and ends with a zero.
fn boundaries(prefix: &Key, ranges: Vec<KeyRange>) -> Vec<KeyValue> {
    let mut rows: Vec<KeyValue> = Vec::new();
    let behind = |key: &Key| -> Key { [&prefix[..], key].concat().into() };
    for range in ranges {
        let begin = behind(&range.begin);
        if rows.last().is_some_and(|last| last.key == begin) {
            rows.pop();
        } else {
            rows.push(KeyValue {
                key: begin,
                value: Bytes::from_static(b"1"),
            });
        }
        rows.push(KeyValue {
            key: behind(&range.end),
            value: Bytes::from_static(b"0"),
        });
    }
    rows
}

/// Applies the transaction's own special writes to the rows.
fn overlay(rows: &mut Vec<KeyValue>, state: &State, part: &KeyRange) {
    for (key, value) in state.writes.range(part.begin.clone()..part.end.clone()) {
        rows.retain(|row| row.key != *key);
        rows.extend(value.clone().map(|value| KeyValue {
            key: key.clone(),
            value,
        }));
    }
    rows.sort_by(|a, b| a.key.cmp(&b.key));
}

fn is_option(key: &Key) -> bool {
    OPTIONS
        .iter()
        .any(|option| key.ends_with(format!("/options/{option}").as_bytes()))
}

/// Remembers why a command failed and returns the error that points there.
fn fail(host: &impl Host, command: &str, reason: &str) -> Error {
    let message = serde_json::json!({ "retriable": false, "command": command, "message": reason });
    host.special().borrow_mut().error_message = Some(message.to_string().into());
    Error::SPECIAL_KEYS_API_FAILURE
}

fn set_tracing(host: &impl Host, key: &Key, value: &Value) -> Result<(), Error> {
    if key.ends_with(b"/transaction_id") {
        let id = identity(value).ok_or(Error::INTERNAL_ERROR)?;
        host.special().borrow_mut().trace_id = id;
    } else if key.ends_with(b"/token") {
        let token = match &value[..] {
            b"true" => host.random_u64().max(1),
            b"false" => 0,
            _ => {
                return Err(fail(
                    host,
                    "configure trace token",
                    "the token must be set to true or false",
                ));
            }
        };
        host.special().borrow_mut().trace_token = token;
    }
    Ok(())
}

/// Parses two numbers from 32 hexadecimal digits.
fn identity(value: &Value) -> Option<[u64; 2]> {
    let text = std::str::from_utf8(value)
        .ok()
        .filter(|text| text.len() == 32 && text.is_ascii())?;
    let half = |text| u64::from_str_radix(text, 16).ok();
    Some([half(&text[..16])?, half(&text[16..])?])
}

/// Locks or unlocks the database.
async fn commit_lock(host: &impl Host) -> Result<(), Error> {
    let key = Bytes::from_static(DATABASE_LOCKED_KEY);
    let wanted = host
        .special()
        .borrow()
        .writes
        .get(&keys_of("management/db_locked").begin)
        .cloned()
        .flatten();
    let stored = host.read_system_key(key.clone()).await?;
    let Some(wanted) = wanted else {
        if stored.is_some() {
            let end = KeyBound::after(&key).to_key();
            host.write_system_key(
                Mutation {
                    kind: MutationKind::ClearRange,
                    param1: key,
                    param2: end,
                },
                None,
            );
        }
        return Ok(());
    };
    let Some(id) = identity(&wanted) else {
        return Err(fail(
            host,
            "lock",
            "the database is locked with an identity of 32 hexadecimal digits",
        ));
    };
    let id = [id[0].to_be_bytes(), id[1].to_be_bytes()].concat();
    match stored {
        Some(stored) if stored.get(10..) != Some(&id[..]) => Err(Error::DATABASE_LOCKED),
        Some(_) => Ok(()),
        None => {
            let value = [&[0; 10][..], &id, &[0; 4]].concat().into();
            let lock = Mutation {
                kind: MutationKind::SetVersionstampedValue,
                param1: key,
                param2: value,
            };
            let everything = KeyRange {
                begin: Bytes::new(),
                end: Bytes::from_static(b"\xff"),
            };
            host.write_system_key(lock, Some(everything));
            Ok(())
        }
    }
}
