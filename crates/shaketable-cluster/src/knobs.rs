//! The numbers that FoundationDB's behaviour is made of, by FoundationDB's names.
//!
//! Every run has its own [`Knobs`]. With buggify each knob that has a second, nastier value takes
//! it with FoundationDB's odds: the line is active in a quarter of the runs, and then fires with a
//! chance of a quarter. Changed knobs can be listed by name, and a test file may set any of them by
//! name. Each test may have its own knobs: a running cluster and its clients look them up in
//! [`LiveKnobs`] each time they need a number.

use shaketable_kernel::Stream;
use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

/// The chance that a place where buggify may strike is active in a run, and the chance that it
/// strikes once active.
pub const BUGGIFY_CHANCE: f64 = 0.25;

macro_rules! knobs {
    ($($(#[doc = $doc:literal])* $name:ident: $type:ty = $default:expr $(, buggify $buggify:expr)?;)*) => {
        /// One run's numbers. The fields carry FoundationDB's names in lower case.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Knobs { $($(#[doc = $doc])* pub $name: $type,)* }

        impl Default for Knobs {
            fn default() -> Knobs { Knobs { $($name: $default,)* } }
        }

        impl Knobs {
            /// Draws buggified values.
            pub fn buggify(&mut self, stream: &Stream) {
                $($(
                    // Each knob takes the same draws whatever the outcome, so that one more knob in
                    // a test file does not change the others.
                    let (active, fires) = (stream.chance(BUGGIFY_CHANCE), stream.chance(BUGGIFY_CHANCE));
                    let nasty: fn(&Stream) -> $type = $buggify;
                    let value = nasty(stream);
                    if active && fires { self.$name = value; }
                )?)*
            }

            /// Sets a knob from its text in a test file. Fails if there is no such knob, or if the
            /// text is not one of its values.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), KnobError> {
                match name.to_ascii_lowercase().as_str() {
                    $(stringify!($name) => {
                        self.$name = <$type as KnobValue>::parse(value).ok_or_else(|| KnobError::Value {
                            name: stringify!($name), value: value.to_owned(),
                        })?;
                    })*
                    _ => return Err(KnobError::Unknown { name: name.to_owned() }),
                }
                Ok(())
            }

            /// Every knob there is.
            pub fn all() -> Vec<KnownKnob> {
                let defaults = Knobs::default();
                vec![$(KnownKnob {
                    name: stringify!($name),
                    default: defaults.$name.to_string(),
                    meaning: concat!($($doc),*),
                    is_buggified: false $(|| !stringify!($buggify).is_empty())?,
                },)*]
            }

            /// What differs from the defaults, one `name=value` per knob.
            pub fn changed(&self) -> Vec<String> {
                let mut changed = Vec::new();
                $(if self.$name != $default {
                    let mut text = String::new();
                    let _ = write!(text, "{}={}", stringify!($name), self.$name);
                    changed.push(text);
                })*
                changed
            }
        }
    };
}

/// The knobs of a running cluster and its clients, which must not keep what they read. Cheap to
/// clone.
#[derive(Clone, Debug, Default)]
pub struct LiveKnobs(Rc<RefCell<Rc<Knobs>>>);

impl LiveKnobs {
    /// Knobs that can be changed later.
    pub fn new(knobs: Knobs) -> LiveKnobs {
        LiveKnobs(Rc::new(RefCell::new(Rc::new(knobs))))
    }

    /// The current numbers.
    pub fn get(&self) -> Rc<Knobs> {
        self.0.borrow().clone()
    }

    /// Replaces the numbers, for the cluster and all its clients.
    pub(crate) fn set(&self, knobs: Knobs) {
        *self.0.borrow_mut() = Rc::new(knobs);
    }
}

/// What is known about a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKnob {
    /// Its name.
    pub name: &'static str,
    /// Its value, unless something else is said or drawn.
    pub default: String,
    /// What it is.
    pub meaning: &'static str,
    /// Whether buggify has another value for it.
    pub is_buggified: bool,
}

/// Why a knob could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// There is no knob with that name.
    #[error(
        "no knob is called {name:?}: knobs carry FoundationDB's names, and only those that a client can notice exist here"
    )]
    Unknown {
        /// The name that was given.
        name: String,
    },
    /// The text cannot be read as the knob's type.
    #[error("{value:?} is not a value of the knob {name}")]
    Value {
        /// The knob.
        name: &'static str,
        /// The text that was given.
        value: String,
    },
}

trait KnobValue: Sized {
    fn parse(text: &str) -> Option<Self>;
}
impl KnobValue for f64 {
    fn parse(text: &str) -> Option<f64> {
        text.trim()
            .parse()
            .ok()
            .filter(|value: &f64| value.is_finite())
    }
}
impl KnobValue for i64 {
    fn parse(text: &str) -> Option<i64> {
        text.trim()
            .parse()
            .ok()
            .or_else(|| f64::parse(text).map(|value| value as i64))
    }
}
impl KnobValue for bool {
    fn parse(text: &str) -> Option<bool> {
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        }
    }
}

knobs! {
    // What the client waits for.

    /// First delay of the growing backoff, in seconds.
    default_backoff: f64 = 0.01, buggify |s| s.uniform();
    /// Where the backoff stops growing, in seconds.
    default_max_backoff: f64 = 1.0;
    /// By how much it grows.
    backoff_growth_rate: f64 = 2.0;
    /// Where it stops growing when a server had no memory left, in seconds.
    resource_constrained_max_backoff: f64 = 30.0;
    /// Delay after 1007 and 1009, in seconds.
    future_version_retry_delay: f64 = 0.01, buggify |s| s.uniform();
    /// Delay after a shard was not where the cache said, in seconds.
    wrong_shard_server_delay: f64 = 0.01, buggify |s| s.uniform();
    /// How long the client collects requests for a read version, in seconds.
    grv_batch_timeout: f64 = 0.005, buggify |_| 0.1;
    /// How many requests for a read version the client collects.
    max_batch_size: i64 = 1000, buggify |_| 1;
    /// How often a watch that the server refused is checked again, in seconds.
    watch_polling_time: f64 = 1.0, buggify |_| 5.0;
    /// How long a server holds a watch, in seconds.
    watch_timeout: f64 = 30.0, buggify |_| 20.0;
    /// How many shards the location cache holds in a simulation.
    location_cache_eviction_size_sim: i64 = 10, buggify |_| 3;
    /// How often, at least, a client with a time limit on a transaction checks the clock, in
    /// seconds.
    transaction_timeout_delay_interval: f64 = 10.0, buggify |_| 1.0;

    // Versions.

    /// How fast versions pass.
    versions_per_second: i64 = 1_000_000;
    /// By how much a recovery jumps ahead.
    max_versions_in_flight: i64 = 100_000_000;
    /// How long a version can be read.
    max_read_transaction_life_versions: i64 = 5_000_000,
        buggify |s| [1_000_000, 100_000, 10_000_000][s.index(3)];
    /// How long after its read version a transaction can commit.
    max_write_transaction_life_versions: i64 = 5_000_000, buggify |_| 1_000_000;
    /// The shortest time a recovery takes after it locked the logs, in seconds.
    required_min_recovery_duration: f64 = 0.08;

    /// How long servers behind a dead one wait for news of a generation, in seconds.
    dbinfo_failed_delay: f64 = 1.0;

    // Proxies.

    /// How long the first commit after a pause waits for others to join it, in seconds.
    commit_transaction_batch_interval_from_idle: f64 = 0.0005;
    /// The shortest time between commit batches, in seconds.
    commit_transaction_batch_interval_min: f64 = 0.001, buggify |_| 0.1;
    /// The longest time a commit waits for its batch, in seconds.
    commit_transaction_batch_interval_max: f64 = 0.020;
    /// For which fraction of a batch's latency the next batch waits.
    commit_transaction_batch_interval_latency_fraction: f64 = 0.1;
    /// The most transactions in a batch.
    commit_transaction_batch_count_max: i64 = 32_768, buggify |_| 1000;
    /// The bytes that fill a batch.
    commit_transaction_batch_bytes_min: i64 = 100_000;
    /// The longest time a GRV proxy collects requests, in seconds.
    start_transaction_batch_interval_max: f64 = 0.010;
    /// The most requests a GRV proxy lets wait.
    start_transaction_max_queue_size: i64 = 1_000_000, buggify |_| 1000;
    /// Whether ranges can be locked against writes.
    enable_read_lock_on_range: bool = false, buggify |_| true;

    // Storage servers.

    /// How long a read waits for its version before 1009, in seconds.
    future_version_delay: f64 = 1.0;
    /// How often a storage server writes to its disk and moves its window of versions, in seconds.
    storage_commit_interval: f64 = 0.5, buggify |_| 2.0;
    /// How much memory watches may take, in bytes.
    max_storage_server_watch_bytes: i64 = 100_000_000, buggify |_| 10_000;
    /// The most bytes in a reply of a buggified range read.
    buggify_limit_bytes: i64 = 1000;
    /// How far a storage server may lag behind the logs before it refuses reads with 1037, in
    /// versions.
    behind_check_versions: i64 = 5_000_000;

    // Machines.

    /// The shortest time a rebooting process is away, in seconds.
    min_reboot_time: f64 = 4.0, buggify |_| 10.0;
    /// The longest time a rebooting process is away, in seconds.
    max_reboot_time: f64 = 5.0, buggify |_| 20.0;
    /// By how much a delay that a client asks for may be too long, in seconds.
    max_buggified_delay: f64 = 0.0, buggify |s| 0.2 * s.uniform();
    /// The longest time a file that changes its length delays the next write, in seconds.
    non_durable_max_write_delay: f64 = 2.0, buggify |_| 5.0;
    /// The longest time a disk delays a write that buggify picked, in seconds.
    max_prior_modification_delay: f64 = 1.0, buggify |_| 10.0;
    /// Each ordered pair of addresses has its own latency up to this, in seconds.
    max_clogging_latency: f64 = 0.0, buggify |s| 0.1 * s.uniform();

    // Data distribution.

    /// How long a storage server may be away before its shards are copied to others, in seconds.
    data_distribution_failure_reaction_time: f64 = 60.0, buggify |_| 1.0;

    // Versions while nothing is written.

    /// How often an idle cluster commits an empty batch, so that read versions advance; in seconds.
    // Windows of versions shorten it: read `empty_batch_interval` instead.
    max_commit_batch_interval: f64 = 2.0, buggify |_| 0.5;
}

impl Knobs {
    /// How often an idle cluster commits an empty batch, in seconds: at least twice in the time
    /// that a version can be read or committed at. Otherwise a client that pauses before each
    /// attempt, for about as long as that window, would find its newest read version too old to
    /// commit at, attempt after attempt.
    pub fn empty_batch_interval(&self) -> f64 {
        let half = |window: i64| window as f64 / (2.0 * self.versions_per_second as f64);
        self.max_commit_batch_interval
            .min(half(self.max_read_transaction_life_versions))
            .min(half(self.max_write_transaction_life_versions))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_knob_is_set_by_name_in_either_case() {
        let mut knobs = Knobs::default();
        knobs
            .set("MAX_READ_TRANSACTION_LIFE_VERSIONS", "1e6")
            .unwrap();
        knobs.set("enable_read_lock_on_range", "true").unwrap();
        assert_eq!(knobs.max_read_transaction_life_versions, 1_000_000);
        assert_eq!(
            knobs.changed(),
            [
                "max_read_transaction_life_versions=1000000",
                "enable_read_lock_on_range=true"
            ]
        );
    }

    #[test]
    fn a_wrong_name_and_a_wrong_value_are_told_apart() {
        let mut knobs = Knobs::default();
        let unknown = knobs.set("no_such_knob", "1").unwrap_err();
        assert_eq!(
            unknown,
            KnobError::Unknown {
                name: "no_such_knob".into()
            }
        );
        let value = knobs.set("default_backoff", "soon").unwrap_err();
        assert_eq!(
            value.to_string(),
            "\"soon\" is not a value of the knob default_backoff"
        );
    }
}
