//! A run, a moment of it, and where futures of that moment begin.
//!
//! Futures begin just before the instant at which something was met, just after it, and, three
//! times of eight, a while before it. Code that meets something often draws what it does next in
//! the same instant: after it, all futures would share that draw. Before it they do not, and most
//! meet it again. And what decides whether a moment leads on may have been drawn earlier, by
//! another client: then it is a dead end, and so is every moment until that draw. The ways that
//! lead on branch off before it.

use serde::{Deserialize, Serialize};

/// A run: a seed, and the moments from which on it was drawn anew.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Path {
    /// The seed.
    pub seed: u64,
    /// In the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub turns: Vec<Turn>,
}

/// From a moment on, everything is drawn from another seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Turn {
    /// Simulated seconds.
    pub from: f64,
    /// The seed.
    pub seed: u64,
}

/// A moment of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Place {
    /// The run up to it.
    pub path: Path,
    /// Where futures begin, in simulated seconds.
    pub from: f64,
}

impl Path {
    /// The run of a seed.
    pub fn of(seed: u64) -> Path {
        Path {
            seed,
            turns: Vec::new(),
        }
    }

    /// Since when nothing is known of it yet.
    pub(super) fn is_new_since(&self) -> f64 {
        self.turns.last().map_or(0.0, |turn| turn.from)
    }
}

impl Place {
    /// What becomes of the run if it is drawn from this seed from here on.
    pub fn future(&self, seed: u64) -> Path {
        let mut path = self.path.clone();
        path.turns.push(Turn {
            from: self.from,
            seed,
        });
        path
    }

    /// The moment as long as this before what was met there, as far back as it can be drawn anew.
    pub(super) fn back(&self, seconds: f64) -> Place {
        let new_since = self.path.is_new_since() + INSTANT_SECONDS;
        Place {
            path: self.path.clone(),
            from: (self.from - seconds).max(new_since).min(self.from),
        }
    }
}

/// Futures begin this long after what was met, or before it: the shortest time there is.
pub(super) const INSTANT_SECONDS: f64 = 1e-9;
/// How long before a place its futures begin: at its first choice, at its second, and so on.
pub(super) const BACK_SECONDS: [f64; 8] = [
    JUST_BEFORE,
    0.0,
    0.1,
    JUST_BEFORE,
    0.0,
    0.01,
    JUST_BEFORE,
    1.0,
];
/// Before what was met, where a place is just after it.
const JUST_BEFORE: f64 = 2.0 * INSTANT_SECONDS;
