//! Faults for an ordinary program, in any language: what the environment asks for.
//!
//! * `SHAKETABLE_FAULTS`: `off`, the default; `some`, a cluster of one process under stress, at
//!   full speed; `all`, a cluster of several machines on a simulated network that is killed,
//!   clogged and rolled back, at the speed of real time.
//! * `SHAKETABLE_BUGGIFY`: `on` lets the cluster take rare and nasty paths, as in a simulation.
//! * `SHAKETABLE_SEED`: the seed of everything that is drawn. A program is not reproducible, but
//!   the same seed draws the same cluster and the same sequence of faults.
//!
//! Nothing is injected where the program could see it directly. The faults are those of a
//! simulation: connections break when a commit has arrived or become durable, processes die, disks
//! stall; what a client sees of it is what follows.

use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::faults::{Attrition, Context, FaultWorkload, RandomClogging, Rollback};
use shaketable_cluster::saboteur::Saboteur;
use shaketable_kernel::{Kernel, NetworkConfig, Priority, ProcessId};
use std::fmt;

/// How many faults there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Level {
    /// None.
    #[default]
    Off,
    /// One process under stress.
    Some,
    /// Machines that die and a network that fails.
    All,
}

/// What the environment asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faults {
    /// How many.
    pub level: Level,
    /// Whether rare and nasty paths are taken.
    pub buggify: bool,
    /// The seed of everything that is drawn.
    pub seed: u64,
}

/// A variable that says nothing that is understood.
#[derive(Debug, thiserror::Error)]
#[error("{name} is {value:?}; it can be {choices}")]
pub struct BadVariable {
    name: &'static str,
    value: String,
    choices: &'static str,
}

/// One fixed seed keeps the draws of programs the same that do not ask for faults.
const SEED: u64 = 0x5ea5_4a6e;
/// How long one round of fault workloads lasts, and the calm after it, in seconds.
const ROUND_SECONDS: f64 = 10.0;
const CALM_SECONDS: f64 = 5.0;

impl Default for Faults {
    fn default() -> Self {
        Faults {
            level: Level::Off,
            buggify: false,
            seed: SEED,
        }
    }
}

impl Faults {
    /// Reads the environment, by `variable`. Where faults are asked for without a seed, one is
    /// drawn.
    pub fn read(
        variable: impl Fn(&str) -> Option<String>,
        drawn: impl FnOnce() -> u64,
    ) -> Result<Faults, BadVariable> {
        let bad = |name, value, choices| BadVariable {
            name,
            value,
            choices,
        };
        let level = match variable("SHAKETABLE_FAULTS") {
            None => Level::Off,
            Some(value) => match value.as_str() {
                "" | "off" | "0" => Level::Off,
                "some" | "1" => Level::Some,
                "all" | "2" => Level::All,
                _ => return Err(bad("SHAKETABLE_FAULTS", value, "off, some or all")),
            },
        };
        let buggify = match variable("SHAKETABLE_BUGGIFY") {
            None => false,
            Some(value) => match value.as_str() {
                "" | "off" | "0" => false,
                "on" | "1" => true,
                _ => return Err(bad("SHAKETABLE_BUGGIFY", value, "off or on")),
            },
        };
        let seed = match variable("SHAKETABLE_SEED").filter(|value| !value.is_empty()) {
            Some(value) => match value.parse() {
                Ok(seed) => seed,
                Err(_) => return Err(bad("SHAKETABLE_SEED", value, "a number from 0 to 2⁶⁴-1")),
            },
            None if level == Level::Off && !buggify => SEED,
            None => drawn(),
        };
        Ok(Faults {
            level,
            buggify,
            seed,
        })
    }

    /// Whether there are any.
    pub fn are_on(&self) -> bool {
        self.level != Level::Off || self.buggify
    }

    /// The cluster to build.
    pub(crate) fn cluster(&self, kernel: &Kernel) -> ClusterConfig {
        let mut config = match self.level {
            Level::Off => ClusterConfig::single_process(true),
            Level::Some => ClusterConfig::single_process(true).under_stress(),
            Level::All => {
                kernel.set_network_config(NetworkConfig::simulation());
                let options = Default::default();
                ClusterConfig::simulation(kernel, &options, self.buggify)
                    .expect("no words are read, so that none is unknown")
            }
        };
        if self.buggify && self.level != Level::All {
            config.knobs.buggify(&kernel.stream("knobs"));
        }
        config.buggify = self.buggify;
        config
    }

    /// Begins to break a cluster, and does not stop.
    pub(crate) fn start(&self, cluster: &Cluster, client: ProcessId, api_version: i32) {
        if self.level != Level::All {
            return cluster.set_faults_enabled(self.level == Level::Some);
        }
        let database = cluster.open_database(client, api_version);
        let kernel = cluster.kernel();
        let (up, beginning) = (database.clone(), cluster.clone());
        let begin = async move {
            // A cluster comes up in peace, as in a simulation.
            let _ = up.create_transaction().get_read_version().await;
            beginning.set_faults_enabled(true);
        };
        kernel
            .spawn(client, Priority::DefaultEndpoint, begin)
            .detach();
        let workloads = [
            FaultWorkload::Attrition(Attrition {
                machines_to_kill: 2,
                machines_to_leave: 1,
                test_duration: ROUND_SECONDS,
                reboot: true,
                kill_dc: false,
                replacement: false,
                allow_fault_injection: true,
            }),
            FaultWorkload::RandomClogging(RandomClogging {
                test_duration: ROUND_SECONDS,
                scale: 1.0,
                clogginess: 1.0,
                swizzle: false,
                iterate: false,
            }),
            FaultWorkload::Rollback(Rollback {
                mean_delay: ROUND_SECONDS,
                clog_duration: 3.0,
                test_duration: ROUND_SECONDS,
                multiple: false,
                enable_failures: false,
            }),
        ];
        for workload in workloads {
            let context = Context {
                saboteur: Saboteur::new(cluster),
                name: workload.name().to_owned(),
                database: database.clone(),
                random: kernel.stream(&format!("faults {}", workload.name())),
            };
            let clock = kernel.clone();
            let again = async move {
                loop {
                    workload.start(&context).await;
                    clock.sleep(CALM_SECONDS).await;
                }
            };
            kernel
                .spawn(client, Priority::DefaultEndpoint, again)
                .detach();
        }
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match self.level {
            Level::Off => "off",
            Level::Some => "some",
            Level::All => "all",
        };
        let buggify = if self.buggify { "on" } else { "off" };
        write!(
            f,
            "SHAKETABLE_FAULTS={level} SHAKETABLE_BUGGIFY={buggify} SHAKETABLE_SEED={}",
            self.seed
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Faults, String> {
        let variable = |name: &str| {
            let mut found = variables.iter().filter(|(other, _)| *other == name);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        Faults::read(variable, || 7).map_err(|error| error.to_string())
    }

    #[test]
    fn the_environment_chooses_level_and_seed() {
        assert_eq!(read(&[]), Ok(Faults::default()));
        let faults = read(&[("SHAKETABLE_FAULTS", "some")]).expect("a level");
        assert_eq!((faults.level, faults.seed), (Level::Some, 7));
        let faults = read(&[("SHAKETABLE_BUGGIFY", "on"), ("SHAKETABLE_SEED", "42")]);
        let text = faults.expect("all right").to_string();
        assert_eq!(
            text,
            "SHAKETABLE_FAULTS=off SHAKETABLE_BUGGIFY=on SHAKETABLE_SEED=42"
        );
        assert_eq!(
            read(&[("SHAKETABLE_FAULTS", "many")]),
            Err("SHAKETABLE_FAULTS is \"many\"; it can be off, some or all".to_owned())
        );
        assert!(read(&[("SHAKETABLE_SEED", "-1")]).is_err());
    }
}
