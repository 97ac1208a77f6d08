//! What a cluster is built from: its processes, its numbers, and how hostile it is.
//!
//! A configuration is complete before anything runs: everything a seed decides about the shape of a
//! cluster is drawn by then.

use crate::history::History;
use crate::keeper::Keeper;
use crate::knobs::Knobs;
use crate::proto::Version;
use crate::server::layout::Layout;
use std::rc::Rc;

/// The description of a cluster to build.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Its processes and roles.
    pub layout: Layout,
    /// Its numbers.
    pub knobs: Knobs,
    /// Whether all artificial waits are left out.
    pub instant: bool,
    /// Whether rare and nasty code paths are taken on purpose.
    pub buggify: bool,
    /// Whether rare but legal outcomes are frequent; see [`ClusterConfig::under_stress`].
    pub stress: bool,
    /// What the odds of stress are multiplied with.
    pub stress_factor: f64,
    /// How often a commit that depends on reads meets a rival: a client that has just written what
    /// it read. For the database of a program that is its only client.
    pub rival_chance: f64,
    /// Where the cluster records what commits, for a checker.
    pub history: Option<History>,
    /// The disk outside of the simulation, if the data must survive the program.
    pub keeper: Option<Rc<dyn Keeper>>,
    /// All versions of the cluster are higher than this one.
    pub begins_after: Version,
}

impl ClusterConfig {
    /// One process with one replica, for a database inside an ordinary program; `instant` leaves
    /// out all artificial waits.
    pub fn single_process(instant: bool) -> ClusterConfig {
        ClusterConfig {
            layout: Layout::single_process(),
            knobs: Knobs::default(),
            instant,
            buggify: false,
            stress: false,
            stress_factor: 1.0,
            rival_chance: 0.0,
            history: None,
            keeper: None,
            begins_after: 0,
        }
    }

    /// The same, but worse than production: outcomes that clients rarely see even under faults
    /// happen all the time while faults are on. Everything stays legal.
    pub fn under_stress(mut self) -> ClusterConfig {
        self.stress = true;
        crate::stress::set_knobs(&mut self.knobs);
        self
    }

    /// The same, with rivals: what a program that is the only client of its database would
    /// otherwise never meet.
    pub fn among_rivals(mut self) -> ClusterConfig {
        self.rival_chance = crate::stress::RIVAL;
        self
    }
}
