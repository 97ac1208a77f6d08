//! The parameters of the network, and how they determine a message's latency.

/// How long messages take, how often connections break, and how soon that is noticed. All durations
/// are in seconds, all chances between 0 and 1.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkConfig {
    /// A sender waits up to this long for more messages before it sends.
    pub batching_seconds: f64,
    /// The shortest time a message spends in one of the two halves of its path.
    pub half_latency_min_seconds: f64,
    /// The longest such time, usually.
    pub half_latency_fast_seconds: f64,
    /// The longest such time, in rare cases.
    pub half_latency_slow_seconds: f64,
    /// The chance of that rare case.
    pub slow_chance: f64,
    /// Each ordered pair of addresses has a fixed latency of its own up to this, while faults are
    /// on.
    pub pair_latency_seconds: f64,
    /// How often a message is cut in two. The rest travels later, and may be cut again: a receiver
    /// sees a part of what was sent and waits for the rest.
    pub split_chance: f64,
    /// The first message of a connection waits up to this long, for the slower of the two sides.
    /// Servers that talk while faults are off connect at no cost, and so do clients at first: a
    /// test begins long after its cluster has come up.
    pub connect_latency_seconds: f64,
    /// The chance, for each message, that it breaks its connection, while such failures are
    /// enabled.
    pub connection_failure_chance: f64,
    /// How often a connection that breaks by chance does so visibly; otherwise only silence reveals
    /// it.
    pub explicit_failure_chance: f64,
    /// The shortest time for which a connection over which nothing arrives is kept.
    pub connection_timeout_min_seconds: f64,
    /// The longest such time.
    pub connection_timeout_max_seconds: f64,
    /// How long a process must be silent to be declared failed.
    pub failure_detection_seconds: f64,
}

impl NetworkConfig {
    /// FoundationDB's simulated network.
    pub fn simulation() -> NetworkConfig {
        NetworkConfig {
            batching_seconds: 0.002,
            half_latency_min_seconds: 0.000_05,
            half_latency_fast_seconds: 0.000_4,
            half_latency_slow_seconds: 0.05,
            slow_chance: 0.001,
            pair_latency_seconds: 0.0,
            split_chance: 0.5,
            connect_latency_seconds: 0.5,
            // One in 100,000 for each read and each write of a socket: a message is one write, and
            // two reads for each of its parts. The real network also has pings, which do not exist
            // here.
            connection_failure_chance: 1e-4,
            explicit_failure_chance: 0.3,
            // The monitor looks every 0.75 s and gives a ping 1.5 s to come back.
            connection_timeout_min_seconds: 1.5,
            connection_timeout_max_seconds: 2.25,
            failure_detection_seconds: 4.0,
        }
    }

    /// No latency at all: a message costs one trip through the ready queue.
    pub fn instant() -> NetworkConfig {
        NetworkConfig {
            batching_seconds: 0.0,
            half_latency_min_seconds: 0.0,
            half_latency_fast_seconds: 0.0,
            half_latency_slow_seconds: 0.0,
            slow_chance: 0.0,
            connect_latency_seconds: 0.0,
            ..NetworkConfig::simulation()
        }
    }

    pub(super) fn is_instant(&self) -> bool {
        self.batching_seconds == 0.0
            && self.half_latency_fast_seconds == 0.0
            && (self.half_latency_slow_seconds == 0.0 || self.slow_chance == 0.0)
            && self.pair_latency_seconds == 0.0
            && self.connect_latency_seconds == 0.0
    }
}

/// How long the two halves of a path take: the numbers of [`NetworkConfig`], ready to use.
#[derive(Clone, Copy)]
pub(super) struct Ways {
    slow_chance: f64,
    shortest: f64,
    /// The factors for a draw: one below `slow_chance`, and one above it, where the range begins at
    /// `slow_chance`.
    slow: f64,
    fast: f64,
}

impl Ways {
    pub(super) fn new(config: &NetworkConfig) -> Ways {
        let span = |longest| longest - config.half_latency_min_seconds;
        Ways {
            slow_chance: config.slow_chance,
            shortest: config.half_latency_min_seconds,
            slow: span(config.half_latency_slow_seconds) / config.slow_chance,
            fast: span(config.half_latency_fast_seconds) / (1.0 - config.slow_chance),
        }
    }

    /// One number decides both whether a half is slow and how slow it is.
    #[inline]
    pub(super) fn half(&self, draw: f64) -> f64 {
        let more = if draw < self.slow_chance {
            draw * self.slow
        } else {
            (draw - self.slow_chance) * self.fast
        };
        self.shortest + more
    }
}
