//! What a cluster is made of: datacenters, machines, processes, and how many of each role.
//!
//! A seed draws a layout the way FoundationDB's simulator does; a test file may force parts of it.
//! A layout is a plain description; [`crate::cluster::Cluster`] builds it.

use crate::proto::{Key, Mutation, MutationKind, Value};
use crate::server::metadata::{COORDINATORS_KEY, Metadata};
use shaketable_kernel::{Address, ProcessSpec, Stream};
use std::fmt;

/// The most storage servers of a drawn layout that needs no more.
const STORAGES_MAX: usize = 6;

/// A cluster on paper.
#[derive(Clone, Debug)]
pub struct Layout {
    /// The server processes.
    pub processes: Vec<ProcessSpec>,
    /// Which of them are coordinators.
    pub coordinators: Vec<usize>,
    /// Which of them have a storage server from the beginning.
    pub storages: Vec<usize>,
    /// How many there are of each role.
    pub configuration: Configuration,
    /// Where shards begin, in addition to the empty key.
    pub boundaries: Vec<Key>,
    /// System rows that the database has from the beginning, in addition to those that describe the
    /// cluster.
    pub first_rows: &'static [(&'static [u8], &'static [u8])],
    /// The datacenters of the regions, the preferred one first; empty if there is only one region.
    /// The other datacenters are satellites, which hold logs only.
    pub regions: Vec<String>,
}

/// How many there are of each role, and of each piece of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// How many copies of the data there are.
    pub storage_replicas: usize,
    /// How many copies of the newest versions there are.
    pub log_replicas: usize,
    /// Logs.
    pub logs: usize,
    /// Commit proxies.
    pub commit_proxies: usize,
    /// GRV proxies.
    pub grv_proxies: usize,
    /// Resolvers.
    pub resolvers: usize,
}

/// What a test file may say about the layout. Everything else is drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LayoutOptions {
    /// One of everything.
    pub simple_config: bool,
    /// How many datacenters.
    pub datacenters: Option<usize>,
    /// How many machines.
    pub machine_count: Option<usize>,
    /// How many processes on each machine.
    pub processes_per_machine: Option<usize>,
    /// How many coordinators.
    pub coordinators: Option<usize>,
    /// How many logs.
    pub desired_tlog_count: Option<usize>,
    /// How many commit proxies.
    pub commit_proxy_count: Option<usize>,
    /// How many GRV proxies.
    pub grv_proxy_count: Option<usize>,
    /// How many resolvers.
    pub resolver_count: Option<usize>,
    /// The smallest number of replicas.
    pub minimum_replication: usize,
    /// Whether there are two regions.
    pub generate_fearless: Option<bool>,
    /// A configuration in FoundationDB's words: `single`, `double logs=3`….
    pub config: Option<String>,
}

/// What makes a process a good place for a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fitness {
    /// Roles that store nothing.
    Stateless,
    /// Logs.
    Log,
    /// Storage servers.
    Storage,
}

impl Fitness {
    /// Returns how bad a place a process class is; 0 is best.
    pub fn of(self, class: &str) -> u32 {
        match (self, class) {
            (Fitness::Stateless, "stateless")
            | (Fitness::Log, "transaction" | "log")
            | (Fitness::Storage, "storage") => 0,
            (Fitness::Storage, "unset") | (Fitness::Log, "unset") => 1,
            (Fitness::Stateless, "unset" | "transaction" | "log") => 1,
            (Fitness::Log, "storage") => 2,
            (Fitness::Stateless, "storage") => 2,
            _ => 3,
        }
    }
}

impl Configuration {
    /// One of everything.
    pub const SINGLE: Configuration = Configuration {
        storage_replicas: 1,
        log_replicas: 1,
        logs: 1,
        commit_proxies: 1,
        grv_proxies: 1,
        resolvers: 1,
    };

    /// Reads it from the rows under `\xff/conf/`.
    pub fn read(metadata: &Metadata) -> Configuration {
        let mut configuration = Configuration::SINGLE;
        for (name, field) in configuration.fields() {
            let text = metadata.get(&[b"\xff/conf/", name.as_bytes()].concat());
            let number = text.and_then(|text| std::str::from_utf8(text).ok()?.parse().ok());
            *field = number.unwrap_or(*field).clamp(1, 100);
        }
        configuration
    }

    /// Returns each number under the name that FoundationDB has for it.
    pub fn numbers(mut self) -> [(&'static str, usize); 6] {
        self.fields().map(|(name, field)| (name, *field))
    }

    /// Returns the mutations that write it to the database.
    pub fn write(self) -> Vec<Mutation> {
        self.numbers()
            .into_iter()
            .map(|(name, number)| Mutation {
                kind: MutationKind::SetValue,
                param1: [b"\xff/conf/", name.as_bytes()].concat().into(),
                param2: Value::from(number.to_string()),
            })
            .collect()
    }

    /// Changes it as a `configure` command says: `double`, `logs=5`, `commit_proxies=2`…. Fails
    /// with the first word it does not know.
    pub fn configure(&mut self, command: &str) -> Result<(), String> {
        for word in command.split_whitespace() {
            let replicas = match word {
                "single" => Some(1),
                "double" | "three_data_hall_fallback" => Some(2),
                "triple" | "three_data_hall" | "three_datacenter" => Some(3),
                _ => None,
            };
            if let Some(replicas) = replicas {
                (self.storage_replicas, self.log_replicas) = (replicas, replicas);
                self.logs = self.logs.max(replicas);
                continue;
            }
            let (name, value) = word.split_once([':', '=']).unwrap_or((word, ""));
            if let "proxies" = name {
                let proxies: usize = value.parse().map_err(|_| word.to_owned())?;
                self.grv_proxies = (proxies / 4).max(1);
                self.commit_proxies = (proxies - self.grv_proxies.min(proxies - 1)).max(1);
                continue;
            }
            let known = self.fields().into_iter().find(|(field, _)| *field == name);
            match (known, value.parse()) {
                (Some((_, field)), Ok(value)) => *field = usize::max(value, 1),
                (None, _) if NO_DIFFERENCE.contains(&name) => {}
                _ => return Err(word.to_owned()),
            }
        }
        Ok(())
    }

    fn fields(&mut self) -> [(&'static str, &mut usize); 6] {
        [
            ("storage_replicas", &mut self.storage_replicas),
            ("log_replicas", &mut self.log_replicas),
            ("logs", &mut self.logs),
            ("commit_proxies", &mut self.commit_proxies),
            ("grv_proxies", &mut self.grv_proxies),
            ("resolvers", &mut self.resolvers),
        ]
    }
}

/// Words of a `configure` command that change nothing a client can see here.
const NO_DIFFERENCE: &[&str] = &[
    "new",
    "ssd",
    "ssd-1",
    "ssd-2",
    "ssd-redwood-1",
    "ssd-rocksdb-v1",
    "ssd-sharded-rocksdb",
    "memory",
    "memory-1",
    "memory-2",
    "memory-radixtree",
    "memory-radixtree-beta",
    "log_engine",
    "storage_engine",
    "perpetual_storage_wiggle",
    "storage_migration_type",
    "backup_worker_enabled",
    "tenant_mode",
    "encryption_at_rest_mode",
    "usable_regions",
    "regions",
    "log_version",
    "log_spill",
    "tss",
    "tss_storage_engine",
    "tss_count",
    "blob_granules_enabled",
];

/// What the cluster file of a database inside an ordinary program would contain if there were one.
pub const EMBEDDED_CONNECTION_STRING: &str = "shaketable:embedded@127.0.0.1:4500";

/// The first rows after the user's keys in a real database of one process: a GRV proxy notes that
/// the old client settings have been migrated, and the storage server's arrival leaves a random id.
/// A selector that runs past the user's keys runs over them, and a storage server counts their
/// bytes, so they decide how many of the user's rows fit into the reply.
const FIRST_ROWS: &[(&[u8], &[u8])] = &[
    (COORDINATORS_KEY, EMBEDDED_CONNECTION_STRING.as_bytes()),
    (b"\xff\x02/fdbClientInfo/migrated/", b"1"),
    (
        b"\xff\x02/serverMetadataChanges",
        b"5ea54a6e5ea54a6e5ea54a6e5ea54a6e",
    ),
];

impl Layout {
    /// One process that does everything, for a database inside an ordinary program. As in a new
    /// FoundationDB, a single shard holds all keys, the user's and the system's.
    pub fn single_process() -> Layout {
        let name = || "server".to_owned();
        Layout {
            processes: vec![ProcessSpec {
                name: name(),
                address: Address::v4(127, 0, 0, 1, 4500),
                machine: name(),
                zone: name(),
                datacenter: name(),
                class: "unset".into(),
                ..ProcessSpec::default()
            }],
            coordinators: vec![0],
            storages: vec![0],
            configuration: Configuration::SINGLE,
            boundaries: Vec::new(),
            first_rows: FIRST_ROWS,
            regions: Vec::new(),
        }
    }

    /// Draws a layout. What is drawn for each part of its shape does not depend on what `decide`
    /// makes of the others.
    pub fn draw(
        stream: &Stream,
        options: &LayoutOptions,
        buggify: bool,
        decide: &Decide<'_>,
    ) -> Result<Layout, String> {
        let roles = Roles::draw(stream);
        let fearless = Fearless::draw(stream, options);
        let drawn = Hardware::draw(stream, options, fearless, roles.configure(options)?);
        let mut configuration = roles.decided(options, decide).configure(options)?;
        let fearless = Fearless::decided(fearless, options, decide);
        if let Some(fearless) = &fearless {
            fearless.replicate(&mut configuration);
        }
        let replicas = configuration
            .storage_replicas
            .max(configuration.log_replicas);
        let Hardware {
            datacenters,
            machines,
            per_machine,
        } = drawn.decided(options, fearless, replicas, decide);
        let mut processes = Vec::new();
        let mut storages = Vec::new();
        let storages_wanted = (replicas + 2).max(STORAGES_MAX.min(machines)).min(machines);
        let regions = fearless.as_ref().map_or(Vec::new(), Fearless::regions);
        for machine in 0..machines {
            let datacenter = machine % datacenters;
            for number in 0..per_machine {
                let class = match (per_machine, number) {
                    (1, _) => "unset",
                    (_, 0) => "storage",
                    (2, _) => "unset",
                    (_, 1) => "transaction",
                    (_, 2) => "stateless",
                    _ => "unset",
                };
                let satellite = !regions.is_empty() && !regions.contains(&datacenter.to_string());
                if number == 0 && storages.len() < storages_wanted && !satellite {
                    storages.push(processes.len());
                }
                let [a, b] = [datacenter as u8, (machine / datacenters) as u8 + 1];
                processes.push(ProcessSpec {
                    name: format!("server {machine}.{number}"),
                    address: Address::v4(2, a, 1, b, number as u16 + 1),
                    machine: format!("machine {machine}"),
                    zone: format!("zone {machine}"),
                    datacenter: datacenter.to_string(),
                    data_hall: datacenter.to_string(),
                    class: class.into(),
                });
            }
        }
        let coordinators = if buggify && stream.chance(0.25) {
            stream.range(2, 6_usize)
        } else {
            1
        };
        let mut order: Vec<usize> = (0..drawn.machines).collect();
        stream.shuffle(&mut order);
        order.retain(|machine| *machine < machines);
        order.extend(drawn.machines..machines);
        let coordinators = options
            .coordinators
            .unwrap_or_else(|| decide("coordinators", coordinators, 1))
            .clamp(1, machines);
        let coordinators = order[..coordinators]
            .iter()
            .map(|machine| machine * per_machine)
            .collect();
        let boundaries = draw_boundaries(stream, decide);
        Ok(Layout {
            processes,
            coordinators,
            storages,
            configuration,
            boundaries,
            first_rows: &[],
            regions,
        })
    }
}

/// What becomes of a number that was drawn for the shape of a cluster, given its name and the
/// smallest that is legal.
pub type Decide<'a> = dyn Fn(&str, usize, usize) -> usize + 'a;

/// Machines and where they are.
#[derive(Clone, Copy)]
struct Hardware {
    datacenters: usize,
    machines: usize,
    per_machine: usize,
}

impl Hardware {
    /// Draws what the options leave open.
    fn draw(
        stream: &Stream,
        options: &LayoutOptions,
        fearless: Option<Fearless>,
        mut configuration: Configuration,
    ) -> Hardware {
        if let Some(fearless) = &fearless {
            fearless.replicate(&mut configuration);
        }
        let replicas = configuration
            .storage_replicas
            .max(configuration.log_replicas);
        let simple = options.simple_config;
        let datacenters = options
            .datacenters
            .unwrap_or(if simple { 1 } else { stream.range(1, 4_usize) })
            .max(1);
        let datacenters = fearless.map_or(datacenters, |two| two.datacenters);
        let fewest = (datacenters + 2).max(replicas + 2).min(9);
        let machines = options
            .machine_count
            .unwrap_or_else(|| stream.range(fewest, 10))
            .max(replicas);
        let machines = fearless.map_or(machines, |two| two.machines);
        let per_machine = options
            .processes_per_machine
            .unwrap_or_else(|| stream.range(1, 28 / machines + 2))
            .max(1);
        Hardware {
            datacenters,
            machines,
            per_machine,
        }
    }

    /// The same, after decisions. Two regions have their own numbers.
    fn decided(
        self,
        options: &LayoutOptions,
        fearless: Option<Fearless>,
        replicas: usize,
        decide: &Decide<'_>,
    ) -> Hardware {
        if let Some(two) = fearless {
            return Hardware {
                datacenters: two.datacenters,
                machines: two.machines,
                per_machine: 1,
            };
        }
        let mut hardware = self;
        if options.datacenters.is_none() && !options.simple_config {
            hardware.datacenters = decide("datacenters", self.datacenters, 1).min(MOST);
        }
        if options.machine_count.is_none() {
            hardware.machines = decide("machines", self.machines, replicas).min(MOST);
        }
        hardware.machines = hardware.machines.max(replicas);
        if options.processes_per_machine.is_none() {
            hardware.per_machine = decide("processes per machine", self.per_machine, 1).min(MOST);
        }
        hardware
    }
}

/// More of anything than this is not simulated, whatever a case asks for.
const MOST: usize = 30;

/// How many there are of each role, as drawn.
#[derive(Clone, Copy)]
struct Roles {
    replicas: usize,
    logs: usize,
    commit_proxies: usize,
    grv_proxies: usize,
    resolvers: usize,
}

/// A layout with two regions, which FoundationDB's tests call fearless.
#[derive(Clone, Copy)]
struct Fearless {
    datacenters: usize,
    machines: usize,
}

impl Fearless {
    /// Half of the layouts that may have two regions do.
    fn draw(stream: &Stream, options: &LayoutOptions) -> Option<Fearless> {
        let (wanted, datacenters) = (stream.chance(0.5), *stream.pick(&[4, 6]));
        let fearless = options.generate_fearless;
        fearless
            .unwrap_or(wanted && !Fearless::is_settled(options))
            .then_some(Fearless::new(datacenters, options))
    }

    fn new(datacenters: usize, options: &LayoutOptions) -> Fearless {
        Fearless {
            datacenters,
            machines: if options.minimum_replication > 1 {
                16
            } else {
                12
            },
        }
    }

    /// Whether the options leave no choice: a test that asks for a shape with one region, or for
    /// another configuration, gets that.
    fn is_settled(options: &LayoutOptions) -> bool {
        options.simple_config
            || options.datacenters.is_some()
            || options.machine_count.is_some()
            || options.processes_per_machine.is_some()
            || options.config.is_some()
            || options.generate_fearless.is_some()
    }

    /// The same, after decisions.
    fn decided(
        drawn: Option<Fearless>,
        options: &LayoutOptions,
        decide: &Decide<'_>,
    ) -> Option<Fearless> {
        if Fearless::is_settled(options) {
            return drawn;
        }
        let regions = decide("regions", 1 + usize::from(drawn.is_some()), 1);
        (regions > 1).then(|| drawn.unwrap_or(Fearless::new(4, options)))
    }

    /// Each region has all replicas, and one more machine if there is one.
    fn replicate(&self, configuration: &mut Configuration) {
        let spare = (self.machines / self.datacenters - 1).max(1);
        let replicas = configuration.storage_replicas.min(spare);
        configuration.storage_replicas = 2 * replicas;
        configuration.log_replicas = configuration.log_replicas.min(spare);
        // As many in the satellites as in the region itself.
        configuration.logs = configuration.logs.max(2 * configuration.log_replicas);
    }

    fn regions(&self) -> Vec<String> {
        vec!["0".to_owned(), (self.datacenters / 2).to_string()]
    }
}

impl Roles {
    fn draw(stream: &Stream) -> Roles {
        let replicas = match stream.range(0, 6_usize).min(3) {
            0 => stream.range(1, 4_usize),
            replicas => replicas,
        };
        let count = |most: usize, usual: usize| {
            let (explicit, drawn) = (stream.chance(0.25), stream.range(1, most + 1));
            if explicit { drawn } else { usual }
        };
        let [logs, commit_proxies, grv_proxies, resolvers] =
            [count(6, 3), count(6, 3), count(3, 1), count(6, 1)];
        Roles {
            replicas,
            logs,
            commit_proxies,
            grv_proxies,
            resolvers,
        }
    }

    /// The same, after decisions about what the options leave open.
    fn decided(self, options: &LayoutOptions, decide: &Decide<'_>) -> Roles {
        if options.simple_config || options.config.is_some() {
            return self;
        }
        let role = |asked: Option<usize>, name, drawn| match asked {
            Some(_) => drawn,
            None => decide(name, drawn, 1).min(MOST),
        };
        Roles {
            replicas: decide("replicas", self.replicas, 1).min(3),
            logs: role(options.desired_tlog_count, "logs", self.logs),
            commit_proxies: role(
                options.commit_proxy_count,
                "commit proxies",
                self.commit_proxies,
            ),
            grv_proxies: role(options.grv_proxy_count, "GRV proxies", self.grv_proxies),
            resolvers: role(options.resolver_count, "resolvers", self.resolvers),
        }
    }

    /// The configuration, within what a test file says.
    fn configure(self, options: &LayoutOptions) -> Result<Configuration, String> {
        let replicas = self.replicas.max(options.minimum_replication.min(3));
        let mut configuration = Configuration {
            storage_replicas: replicas,
            log_replicas: replicas,
            logs: self.logs,
            commit_proxies: self.commit_proxies,
            grv_proxies: self.grv_proxies,
            resolvers: self.resolvers,
        };
        if options.simple_config {
            configuration = Configuration::SINGLE;
        }
        if let Some(command) = &options.config {
            configuration.configure(command)?;
        }
        let forced = [
            (options.desired_tlog_count, &mut configuration.logs),
            (
                options.commit_proxy_count,
                &mut configuration.commit_proxies,
            ),
            (options.grv_proxy_count, &mut configuration.grv_proxies),
            (options.resolver_count, &mut configuration.resolvers),
        ];
        for (wanted, field) in forced {
            *field = wanted.unwrap_or(*field).max(1);
        }
        configuration.logs = configuration.logs.max(configuration.log_replicas);
        Ok(configuration)
    }
}

/// Draws where shards begin: those of the user's keys, then that of the system's.
fn draw_boundaries(stream: &Stream, decide: &Decide<'_>) -> Vec<Key> {
    let mut firsts: Vec<u8> = (0..stream.range(0, 4_usize))
        .map(|_| stream.range(1, 255_u8))
        .collect();
    firsts.sort_unstable();
    firsts.dedup();
    let inner = decide("shards", firsts.len() + 2, 2).min(MOST) - 2;
    firsts.truncate(inner);
    let others = (1..255).filter(|byte| byte % 8 == 0 && !firsts.contains(byte));
    let others: Vec<u8> = others.take(inner - firsts.len()).collect();
    firsts.extend(others);
    firsts.sort_unstable();
    let mut boundaries: Vec<Key> = firsts.iter().map(|byte| Key::from(vec![*byte])).collect();
    boundaries.push(Key::from_static(b"\xff"));
    boundaries
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |of: fn(&ProcessSpec) -> &String| {
            let mut names: Vec<_> = self.processes.iter().map(of).collect();
            names.sort();
            names.dedup();
            names.len()
        };
        let Configuration {
            storage_replicas,
            log_replicas,
            logs,
            commit_proxies,
            grv_proxies,
            resolvers,
        } = self.configuration;
        write!(
            f,
            "{}, {}, {}, {}, {}, {}, \
             storage_replicas={storage_replicas} log_replicas={log_replicas} logs={logs} \
             commit_proxies={commit_proxies} grv_proxies={grv_proxies} resolvers={resolvers}, {}",
            counted(self.regions.len().max(1), "region", "regions"),
            counted(
                count(|process| &process.datacenter),
                "datacenter",
                "datacenters"
            ),
            counted(count(|process| &process.machine), "machine", "machines"),
            counted(self.processes.len(), "process", "processes"),
            counted(self.coordinators.len(), "coordinator", "coordinators"),
            counted(self.storages.len(), "storage server", "storage servers"),
            counted(self.boundaries.len() + 1, "shard", "shards"),
        )
    }
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

#[cfg(test)]
mod tests;
