//! Faults for an ordinary program, in any language: what the environment asks for.
//!
//! * `SHAKETABLE_FAULTS`: `off`, the default; `some`, a cluster of one process under stress, at
//!   full speed; `all`, a cluster of several machines on a simulated network that is killed,
//!   clogged and rolled back; or the path of a test file, whose fault workloads then break such a
//!   cluster, again and again.
//! * `SHAKETABLE_BUGGIFY`: `on` lets the cluster take rare and nasty paths, as in a simulation.
//! * `SHAKETABLE_SEED`: the seed of everything that is drawn. A program is not reproducible, but
//!   the same seed draws the same cluster and the same sequence of faults.
//! * `SHAKETABLE_SPEED`: how many times as fast as on the wall time passes for database and client.
//!   Reboots, clogs and timeouts take their seconds; this makes the seconds short.
//!
//! Nothing is injected where the program could see it directly. The faults are those of a
//! simulation: connections break when a commit has arrived or become durable, processes die, disks
//! stall; what a client sees of it is what follows.

use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::faults::{
    Attrition, BadOption, Context, FaultWorkload, Options, RandomClogging, Rollback,
};
use shaketable_cluster::saboteur::Saboteur;
use shaketable_kernel::{Kernel, NetworkConfig, Priority, ProcessId, Stream};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;
use toml_edit::{DocumentMut, Item, Table, TomlError, Value};

/// How many faults there are.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Level {
    /// None.
    #[default]
    Off,
    /// One process under stress.
    Some,
    /// Machines that die and a network that fails.
    All,
    /// Machines and a network, broken by the fault workloads of a test file.
    Listed {
        /// The file, as it was named.
        file: Arc<str>,
        /// What it lists.
        workloads: Arc<[FaultWorkload]>,
    },
}

/// What the environment asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// How many.
    pub level: Level,
    /// What the odds of [`Level::Some`] are multiplied with.
    pub odds_factor: f64,
    /// Whether rare and nasty paths are taken.
    pub buggify: bool,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// How many times as fast as on the wall time passes.
    pub speed: u32,
}

/// A variable that says nothing that is understood.
#[derive(Debug, thiserror::Error)]
pub enum BadVariable {
    /// It has a value that it cannot have.
    #[error("{name} is {value:?}; it can be {choices}")]
    Value {
        /// The variable.
        name: &'static str,
        /// What it says.
        value: String,
        /// What it can say.
        choices: &'static str,
    },
    /// It names a test file that cannot be used.
    #[error("SHAKETABLE_FAULTS names the test file {file}")]
    File {
        /// The file.
        file: String,
        /// Why.
        #[source]
        source: BadFile,
    },
}

/// Why the faults of a test file cannot be played.
#[derive(Debug, thiserror::Error)]
pub enum BadFile {
    /// It cannot be read.
    #[error("it cannot be read")]
    Io(#[from] io::Error),
    /// It is no TOML.
    #[error(transparent)]
    Toml(#[from] TomlError),
    /// A fault workload has an option that means nothing.
    #[error("its workload {workload}: {source}")]
    Option {
        /// The workload.
        workload: String,
        /// Which option, and why.
        source: BadOption,
    },
    /// A fault workload has an option that it does not know.
    #[error("its workload {workload} has no option {option}")]
    UnknownOption {
        /// The workload.
        workload: String,
        /// The option.
        option: String,
    },
    /// There is none.
    #[error("it has no fault workload; these are known: {}", FaultWorkload::NAMES.join(", "))]
    NoFaults,
}

/// One fixed seed keeps the draws of programs the same that do not ask for faults.
const SEED: u64 = 0x5ea5_4a6e;
/// How long one round of fault workloads lasts, and the calm after it, in seconds.
const ROUND_SECONDS: f64 = 10.0;
const CALM_SECONDS: f64 = 5.0;
const SPEED_MAX: u32 = 1000;

impl Default for Faults {
    fn default() -> Self {
        Faults {
            level: Level::Off,
            odds_factor: 1.0,
            buggify: false,
            seed: SEED,
            speed: 1,
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
        let variable = |name| variable(name).filter(|value| !value.is_empty());
        let bad = |name, value, choices| BadVariable::Value {
            name,
            value,
            choices,
        };
        let asked = variable("SHAKETABLE_FAULTS").unwrap_or_else(|| "off".to_owned());
        let buggify = match variable("SHAKETABLE_BUGGIFY") {
            None => false,
            Some(value) => match value.as_str() {
                "off" | "0" => false,
                "on" | "1" => true,
                _ => return Err(bad("SHAKETABLE_BUGGIFY", value, "off or on")),
            },
        };
        let speed = match variable("SHAKETABLE_SPEED") {
            None => 1,
            Some(value) => match value.parse() {
                Ok(speed @ 1..=SPEED_MAX) => speed,
                _ => return Err(bad("SHAKETABLE_SPEED", value, "a number from 1 to 1000")),
            },
        };
        let is_off = matches!(asked.as_str(), "off" | "0");
        let seed = match variable("SHAKETABLE_SEED") {
            Some(value) => match value.parse() {
                Ok(seed) => seed,
                Err(_) => return Err(bad("SHAKETABLE_SEED", value, "a number from 0 to 2⁶⁴-1")),
            },
            None if is_off && !buggify => SEED,
            None => drawn(),
        };
        let level = match asked.as_str() {
            "off" | "0" => Level::Off,
            "some" | "1" => Level::Some,
            "all" | "2" => Level::All,
            file if file.ends_with(".toml") => match listed(Path::new(file), seed) {
                Ok(workloads) => Level::Listed {
                    file: file.into(),
                    workloads,
                },
                Err(source) => {
                    let file = asked;
                    return Err(BadVariable::File { file, source });
                }
            },
            _ => {
                let choices = "off, some, all or the path of a test file";
                return Err(bad("SHAKETABLE_FAULTS", asked, choices));
            }
        };
        Ok(Faults {
            level,
            buggify,
            seed,
            speed,
            ..Faults::default()
        })
    }

    /// Whether there are any.
    pub fn are_on(&self) -> bool {
        self.level != Level::Off || self.buggify
    }

    /// Whether machines and a network are simulated, with all their waits.
    pub fn has_machines(&self) -> bool {
        matches!(self.level, Level::All | Level::Listed { .. })
    }

    /// The cluster to build.
    pub(crate) fn cluster(&self, kernel: &Kernel) -> ClusterConfig {
        let mut config = match self.level {
            Level::Off => ClusterConfig::single_process(true),
            Level::Some => ClusterConfig {
                stress_factor: self.odds_factor,
                ..ClusterConfig::single_process(true)
                    .under_stress()
                    .among_rivals()
            },
            Level::All | Level::Listed { .. } => {
                kernel.set_network_config(NetworkConfig::simulation());
                let options = Default::default();
                ClusterConfig::simulation(kernel, &options, self.buggify)
                    .expect("no words are read, so that none is unknown")
            }
        };
        if self.buggify && !self.has_machines() {
            config.knobs.buggify(&kernel.stream("knobs"));
        }
        config.buggify = self.buggify;
        config
    }

    /// Begins to break a cluster, and does not stop.
    pub(crate) fn start(&self, cluster: &Cluster, client: ProcessId, api_version: i32) {
        let workloads = match &self.level {
            Level::Off => return cluster.set_faults_enabled(false),
            Level::Some => return cluster.set_faults_enabled(true),
            Level::All => all().into(),
            Level::Listed { workloads, .. } => workloads.clone(),
        };
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
        let mut known = BTreeMap::<&str, usize>::new();
        for workload in workloads.iter() {
            let same_before = known.entry(workload.name()).or_default();
            let name = Context::name_of(workload.name(), *same_before, 0);
            *same_before += 1;
            let context = Context {
                saboteur: Saboteur::new(cluster),
                random: kernel.stream(&format!("faults {name}")),
                name,
                database: database.clone(),
            };
            let (clock, workload) = (kernel.clone(), workload.clone());
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

/// What `all` stands for.
fn all() -> [FaultWorkload; 3] {
    [
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
    ]
}

/// The fault workloads of all tests of a test file. Its other workloads are those of a simulation,
/// where this program takes their place.
fn listed(file: &Path, seed: u64) -> Result<Arc<[FaultWorkload]>, BadFile> {
    let document: DocumentMut = std::fs::read_to_string(file)?.parse()?;
    let random = Stream::new(seed, "faults of a test file");
    let mut found = Vec::new();
    for test in tables(document.get("test")) {
        for workload in tables(test.get("workload")) {
            found.extend(fault(workload, &random)?);
        }
    }
    match found.is_empty() {
        true => Err(BadFile::NoFaults),
        false => Ok(found.into()),
    }
}

fn tables(item: Option<&Item>) -> impl Iterator<Item = &Table> {
    let array = item.and_then(Item::as_array_of_tables);
    array.into_iter().flatten()
}

/// The fault workload that a block of a test file describes, if it is one.
fn fault(block: &Table, random: &Stream) -> Result<Option<FaultWorkload>, BadFile> {
    let mut options: BTreeMap<&str, String> = block
        .iter()
        .filter_map(|(key, item)| Some((key, text(item.as_value()?))))
        .collect();
    let Some(name) = options.remove("testName") else {
        return Ok(None);
    };
    let mut take = |option: &str| options.remove(option);
    let read = FaultWorkload::read(&name, &mut Options(&mut take), random);
    let Some(read) = read else {
        return Ok(None);
    };
    let workload = name;
    match (read, options.into_keys().next()) {
        (Err(source), _) => Err(BadFile::Option { workload, source }),
        (Ok(_), Some(option)) => Err(BadFile::UnknownOption {
            workload,
            option: option.to_owned(),
        }),
        (Ok(fault), None) => Ok(Some(fault)),
    }
}

/// An option as the text that workloads read.
fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.value().clone(),
        other => other.to_string().trim().to_owned(),
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = match &self.level {
            Level::Off => "off",
            Level::Some => "some",
            Level::All => "all",
            Level::Listed { file, .. } => file,
        };
        let buggify = if self.buggify { "on" } else { "off" };
        write!(
            f,
            "SHAKETABLE_FAULTS={level} SHAKETABLE_BUGGIFY={buggify} SHAKETABLE_SEED={}",
            self.seed
        )?;
        match self.speed {
            1 => Ok(()),
            speed => write!(f, " SHAKETABLE_SPEED={speed}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Faults, String> {
        let causes = |error: BadVariable| match std::error::Error::source(&error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        let variable = |name: &str| {
            let mut found = variables.iter().filter(|(other, _)| *other == name);
            found.next().map(|(_, value)| (*value).to_owned())
        };
        Faults::read(variable, || 7).map_err(causes)
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
            Err(
                "SHAKETABLE_FAULTS is \"many\"; it can be off, some, all or the path of a test file"
                    .to_owned()
            )
        );
        assert!(read(&[("SHAKETABLE_SEED", "-1")]).is_err());
        let fast = read(&[("SHAKETABLE_FAULTS", "all"), ("SHAKETABLE_SPEED", "20")]);
        assert_eq!(fast.expect("a speed").speed, 20);
        for bad in ["0", "1001", "fast"] {
            assert!(read(&[("SHAKETABLE_SPEED", bad)]).is_err());
        }
    }

    #[test]
    fn a_test_file_lends_its_fault_workloads() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("faults.toml");
        let name = file.to_str().expect("a path in UTF-8");
        let faults = |text: &str| {
            std::fs::write(&file, text).expect("a file");
            read(&[("SHAKETABLE_FAULTS", name), ("SHAKETABLE_SEED", "1")])
                .map_err(|error| error.replace(name, "FILE"))
        };
        let listed = faults(
            "[[test]]\ntestTitle = 'x'\n[[test.workload]]\ntestName = 'External'\nrows = 3\n\
             [[test.workload]]\ntestName = 'Rollback'\nmeanDelay = 2.5\n",
        );
        let Ok(Faults {
            level: Level::Listed { workloads, .. },
            ..
        }) = listed
        else {
            panic!("expected the workloads of a file, found {listed:?}");
        };
        let [FaultWorkload::Rollback(rollback)] = &workloads[..] else {
            panic!("expected one workload, found {workloads:?}");
        };
        assert_eq!(rollback.mean_delay, 2.5);
        for (text, complaint) in [
            (
                "[[test]]\n[[test.workload]]\ntestName = 'Rollback'\nmeanDelay = 'long'\n",
                "its workload Rollback: the option meanDelay wants a number, not \"long\"",
            ),
            (
                "[[test]]\n[[test.workload]]\ntestName = 'Rollback'\nmeanDeley = 1\n",
                "its workload Rollback has no option meanDeley",
            ),
            (
                "[[test]]\n[[test.workload]]\ntestName = 'External'\n",
                "it has no fault workload; these are known: Attrition, ",
            ),
        ] {
            let error = faults(text).expect_err("a file that says nothing");
            let expected = format!("SHAKETABLE_FAULTS names the test file FILE: {complaint}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}
