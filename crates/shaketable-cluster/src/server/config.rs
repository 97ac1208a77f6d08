//! What a cluster is built from: its processes, its numbers, and how hostile it is.
//!
//! A configuration is complete before anything runs: everything a seed decides about the shape of a
//! cluster is drawn here.

use crate::history::History;
use crate::knobs::Knobs;
use crate::server::layout::{Layout, LayoutOptions};
use shaketable_kernel::Kernel;

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
    /// Where the cluster records what commits, for a checker.
    pub history: Option<History>,
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
            history: None,
        }
    }

    /// A cluster drawn from the kernel's seed, within what a test file says. With `buggify` the
    /// knobs are drawn too. Fails with the unknown word if a `configure` command has one.
    pub fn simulation(
        kernel: &Kernel,
        options: &LayoutOptions,
        buggify: bool,
    ) -> Result<ClusterConfig, String> {
        let layout = Layout::draw(&kernel.stream("layout"), options, buggify)?;
        let mut knobs = Knobs::default();
        if buggify {
            knobs.buggify(&kernel.stream("knobs"));
        }
        Ok(ClusterConfig {
            layout,
            knobs,
            instant: false,
            buggify,
            stress: false,
            history: None,
        })
    }
}

impl ClusterConfig {
    /// The same, but worse than production: outcomes that clients rarely see even under faults
    /// happen all the time while faults are on. Everything stays legal.
    pub fn under_stress(mut self) -> ClusterConfig {
        self.stress = true;
        crate::stress::set_knobs(&mut self.knobs);
        self
    }
}
