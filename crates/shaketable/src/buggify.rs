//! Rare but legal behaviour, made frequent: FoundationDB's `BUGGIFY`, for the author's own code.
//!
//! Which places are active in a run, and when an active one fires, is decided by the seed and the
//! place's name alone. No number is drawn for it: a place that is added or taken away changes
//! nothing else in a run.

/// Whether to do something rare but legal here: a small buffer, an early flush, a retry too many.
///
/// FoundationDB's rule: in each run a quarter of the places is active, the same for all clients,
/// and an active place fires in a quarter of its evaluations, or with the probability that is
/// given. A place should have a name; without one it is known by its line, and a line added above
/// it makes it another place.
///
/// It is `false` outside a simulation, without the feature `assertions`, and where buggify is off:
/// on the embedded host that is decided by `--buggify`, `[configuration] buggify` or
/// `Faults::buggify`; under fdbserver, which does not pass the setting on to a workload, it is on
/// unless the workload's block sets `shaketableBuggify = 'off'`. Active places are named in the
/// report, and in the trace by events `WorkloadBuggify` with `Name`, `Site`, `Evaluated` and
/// `Fired`.
///
/// ```
/// use shaketable::buggify;
///
/// fn batch_size() -> usize {
///     if buggify!("tiny batches") { 1 } else { 100 }
/// }
/// assert_eq!(batch_size(), 100, "outside a simulation no place is active");
///
/// if buggify!("cache is dropped", 0.01) {
///     // … one time in a hundred, where the place is active …
/// }
/// ```
#[cfg(feature = "assertions")]
#[macro_export]
macro_rules! buggify {
    () => {
        $crate::buggify!("")
    };
    ($name:literal $(,)?) => {
        $crate::buggify!($name, 0.25)
    };
    ($name:literal, $probability:expr $(,)?) => {
        $crate::__site!(Buggify, $name).fires($probability)
    };
}

/// `false`: the feature `assertions` is off.
#[cfg(not(feature = "assertions"))]
#[macro_export]
macro_rules! buggify {
    () => {
        false
    };
    ($name:literal $(,)?) => {
        false
    };
    ($name:literal, $probability:expr $(,)?) => {{
        if false {
            let _: f64 = $probability;
        }
        false
    }};
}
