//! The options of Cycle.

use super::ring::Ring;
use shaketable_cluster::faults::{BadOption, Options};

/// FoundationDB's options of Cycle, for one client.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct CycleOptions {
    /// How long transactions are made, in seconds.
    pub(super) test_duration: f64,
    /// How many per second this client should make.
    pub(super) transactions_per_second: f64,
    /// Which part of these it must have made.
    pub(super) expected_rate: f64,
    /// By how many loops at once.
    pub(super) actors: usize,
    /// Whether the ring is there already.
    pub(super) skip_setup: bool,
    pub(super) ring: Ring,
}

/// More nodes than this are too much for a cluster in one process: a typo would use up all memory.
const NODES_MAX: f64 = 10_000_000.0;
const ACTORS_MAX: f64 = 100_000.0;
/// A rate to divide by.
const RATE_MIN: f64 = 0.001;

impl CycleOptions {
    pub(crate) fn read(options: &mut Options<'_>, clients: u32) -> Result<Self, BadOption> {
        let wished = options.number("transactionsPerSecond", 5000.0)?;
        let wished = wished.max(RATE_MIN);
        let transactions_per_second = wished / f64::from(clients);
        let actors = options.number("actorsPerClient", transactions_per_second / 5.0)?;
        let nodes = options.number("nodeCount", wished)?;
        // Tracing that no client can see, and a fingerprint that every run has here anyway.
        options.number("traceParentProbability", 0.01)?;
        options.flag("unseedCheck", true)?;
        Ok(CycleOptions {
            test_duration: options.number("testDuration", 10.0)?,
            transactions_per_second,
            // FoundationDB expects 0.7 up to 7.4.6, and has no such option since 7.4.7: what a file
            // asks for is expected, and no more.
            expected_rate: options.number("expectedRate", 0.0)?,
            actors: actors.clamp(0.0, ACTORS_MAX) as usize,
            skip_setup: options.flag("skipSetup", false)?,
            ring: Ring {
                nodes: nodes.clamp(1.0, NODES_MAX) as usize,
                prefix: unprintable(&options.text("keyPrefix", "")),
            },
        })
    }
}

/// The bytes that a text with escapes such as `\x01` and `\\` stands for.
fn unprintable(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = || {
            let digits = std::str::from_utf8(after.strip_prefix(b"x")?.get(..2)?).ok()?;
            u8::from_str_radix(digits, 16).ok()
        };
        let (byte, length) = match (first, after.first()) {
            (b'\\', Some(b'\\')) => (b'\\', 2),
            (b'\\', _) => hex().map_or((b'\\', 1), |byte| (byte, 4)),
            (other, _) => (*other, 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_shared_by_the_clients_and_the_ring_is_not() {
        let mut take = |name: &str| (name == "transactionsPerSecond").then(|| "1000.0".to_owned());
        let options = CycleOptions::read(&mut Options(&mut take), 4).unwrap();
        assert_eq!(options.transactions_per_second, 250.0);
        assert_eq!((options.actors, options.ring.nodes), (50, 1000));
    }

    #[test]
    fn a_prefix_may_have_any_bytes() {
        assert_eq!(unprintable(r"a\x01\\b\xff"), b"a\x01\\b\xff");
        assert_eq!(unprintable(r"\q\x"), br"\q\x", "what is no escape stays");
    }
}
