//! Assertions that count, for use anywhere in the code under test.
//!
//! `assert!` shows that something is wrong. It does not show whether a test ever came near the
//! place where it could be wrong: a retry that never happens, a page that is never split.
//! [`sometimes!`](crate::sometimes) and [`reachable!`](crate::reachable) do. Over a sweep, each
//! assertion is listed with how often it held; `shaketable run --require-sometimes`, and
//! [`Simulation::require_sometimes`](crate::Simulation::require_sometimes), fail where one never
//! did.
//!
//! Two more macros are marks: they assert nothing, and say where a search should look.
//! [`sometimes_each!`](crate::sometimes_each) names a state, and a state that no run has been in
//! before is worth returning to; [`closest!`](crate::closest) measures how far the code is from
//! something rare, and so is a run that came closer than all others. `shaketable run --guided` does
//! return there. Any other run only traces them, as events `WorkloadMark` with `Kind`, `Message`,
//! `Site` and `Value`, one for each value that is new in its process.
//!
//! No context is passed around: the macros find the client whose code is running. Outside a
//! simulation they do nothing. Without the feature `assertions`, which is on by default, they are
//! not even compiled, nor are their conditions evaluated: a layer that depends on `shaketable` for
//! them alone sets `default-features = false`, and the workload that tests it switches them on for
//! both.
//!
//! In the trace, on either host, every assertion is an event `WorkloadAssertion` for each phase in
//! which it was evaluated, with `Kind`, `Message`, `Site`, `Held` and `Broken` (how often the
//! condition was true, and false, since the last such event); a violated one is an error
//! `WorkloadAssertionFailed` with the details, the first time it happens.

/// Asserts that a condition holds whenever this line is reached.
///
/// The first violation fails the run, with the details, and the code goes on: what happens next is
/// worth seeing, too.
///
/// ```
/// # let (balance, account) = (3_i64, "savings");
/// shaketable::always!(
///     balance >= 0,
///     "no account is overdrawn",
///     "Account" => account,
///     "Balance" => balance,
/// );
/// ```
#[cfg(feature = "assertions")]
#[macro_export]
macro_rules! always {
    ($condition:expr, $message:literal $(, $key:expr => $value:expr)* $(,)?) => {{
        let site = $crate::__site!(Always, $message);
        if site.count($condition) {
            site.fail($crate::details![$($key => $value),*]);
        }
    }};
}

/// Asserts that a condition holds at least once, in some client of some seed.
///
/// ```
/// # let attempts = 1;
/// shaketable::sometimes!(attempts > 1, "a transfer was tried again");
/// ```
#[cfg(feature = "assertions")]
#[macro_export]
macro_rules! sometimes {
    ($condition:expr, $message:literal $(,)?) => {{
        $crate::__site!(Sometimes, $message).count($condition);
    }};
}

/// Marks a state of the code under test: each new value is a place that a search returns to.
///
/// The value can be anything with `Debug`, such as an enum or a tuple of small numbers. A value
/// that is different in every run, such as a time or a random number, guides nowhere.
///
/// ```
/// # let (held, waiting) = (2, 1);
/// shaketable::sometimes_each!((held, waiting), "locks held and waited for");
/// ```
#[cfg(feature = "assertions")]
#[macro_export]
macro_rules! sometimes_each {
    ($value:expr, $message:literal $(,)?) => {{
        $crate::__site!(SometimesEach, $message).value(&$value);
    }};
}

/// Marks how far the code under test is from something rare: a run that came closer than all others
/// is one that a search returns to.
///
/// The distance is a number of any type. Smaller is closer, and the message says to what. Mark what
/// a transaction has read inside of it, not after its commit: by then it may be over, and what
/// comes next may have been drawn.
///
/// ```
/// # let (capacity, queued) = (100, 97);
/// shaketable::closest!(capacity - queued, "a full queue");
/// ```
#[cfg(feature = "assertions")]
#[macro_export]
macro_rules! closest {
    ($distance:expr, $message:literal $(,)?) => {{
        $crate::__site!(Closest, $message).distance($distance);
    }};
}

/// Asserts that this line is reached at least once, in some client of some seed.
///
/// ```
/// shaketable::reachable!("a page was split");
/// ```
#[cfg(feature = "assertions")]
#[macro_export]
macro_rules! reachable {
    ($message:literal $(,)?) => {{
        $crate::__site!(Reachable, $message).count(true);
    }};
}

/// Asserts that this line is never reached.
///
/// Unlike the standard library's `unreachable!` it does not panic, so it is of type `()`.
///
/// ```
/// # let kind = 1;
/// match kind {
///     0 | 1 => {}
///     other => shaketable::never_reached!("only two kinds are ever written", "Kind" => other),
/// }
/// ```
#[cfg(feature = "assertions")]
#[macro_export]
macro_rules! never_reached {
    ($message:literal $(, $key:expr => $value:expr)* $(,)?) => {{
        let site = $crate::__site!(Unreachable, $message);
        if site.count(false) {
            site.fail($crate::details![$($key => $value),*]);
        }
    }};
}

/// Asserts nothing: the feature `assertions` is off.
#[cfg(not(feature = "assertions"))]
#[macro_export]
macro_rules! always {
    ($condition:expr, $message:literal $(, $key:expr => $value:expr)* $(,)?) => {{
        if false {
            let _: bool = $condition;
            let _ = $crate::details![$($key => $value),*];
        }
    }};
}

/// Asserts nothing: the feature `assertions` is off.
#[cfg(not(feature = "assertions"))]
#[macro_export]
macro_rules! sometimes {
    ($condition:expr, $message:literal $(,)?) => {{
        if false {
            let _: bool = $condition;
        }
    }};
}

/// Marks nothing: the feature `assertions` is off.
#[cfg(not(feature = "assertions"))]
#[macro_export]
macro_rules! sometimes_each {
    ($value:expr, $message:literal $(,)?) => {{
        if false {
            let _: &dyn ::core::fmt::Debug = &$value;
        }
    }};
}

/// Marks nothing: the feature `assertions` is off.
#[cfg(not(feature = "assertions"))]
#[macro_export]
macro_rules! closest {
    ($distance:expr, $message:literal $(,)?) => {{
        if false {
            let _ = $distance;
        }
    }};
}

/// Asserts nothing: the feature `assertions` is off.
#[cfg(not(feature = "assertions"))]
#[macro_export]
macro_rules! reachable {
    ($message:literal $(,)?) => {{}};
}

/// Asserts nothing: the feature `assertions` is off.
#[cfg(not(feature = "assertions"))]
#[macro_export]
macro_rules! never_reached {
    ($message:literal $(, $key:expr => $value:expr)* $(,)?) => {{
        if false {
            let _ = $crate::details![$($key => $value),*];
        }
    }};
}
