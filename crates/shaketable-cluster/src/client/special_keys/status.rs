//! What a client knows about its cluster, and the `status/json` document built from it.
//!
//! Tools poll `status/json` to learn whether the database is there, which processes it has and what
//! they do. The document has the fields they look at, in the places where FoundationDB puts them,
//! and no numbers that this cluster would have to invent: what it does not measure is not there.
//! The roles are those that the last recovery gave out.

use serde_json::{Map, Value, json};

/// The cluster, as its client knows it.
#[derive(Clone, Debug)]
pub struct ClusterDescription {
    /// `description:id@address,address…`, as in a cluster file.
    pub connection_string: String,
    /// Where the connection string was read from.
    pub cluster_file_path: String,
    /// The identity that the cluster gave itself when it was created.
    pub cluster_id: u128,
    /// The current generation. Without one, no transaction could start now.
    pub generation: Option<GenerationDescription>,
    /// Seconds since the kernel started.
    pub now: f64,
}

/// What a recovery made of the cluster.
#[derive(Clone, Debug)]
pub struct GenerationDescription {
    /// Grows with each recovery.
    pub number: u64,
    /// How many there are to be of each role and of each piece of data, under FoundationDB's names.
    pub configuration: Vec<(&'static str, usize)>,
    /// The processes that play a role.
    pub processes: Vec<ProcessDescription>,
}

/// A process of the cluster.
#[derive(Clone, Debug)]
pub struct ProcessDescription {
    /// Where it listens.
    pub address: String,
    /// What it was started for.
    pub class: String,
    /// The machine it runs on.
    pub machine: String,
    /// The zone that fails with it.
    pub zone: String,
    /// The datacenter it is in.
    pub datacenter: String,
    /// What it does, under the names that fault injection uses.
    pub roles: Vec<&'static str>,
}

impl ClusterDescription {
    /// The part of the connection string before the colon.
    pub(super) fn description(&self) -> &str {
        self.connection_string.split(':').next().unwrap_or_default()
    }

    /// The addresses of the coordinators.
    pub(super) fn coordinators(&self) -> Vec<&str> {
        let addresses = self
            .connection_string
            .split_once('@')
            .map_or("", |(_, addresses)| addresses);
        addresses
            .split(',')
            .filter(|address| !address.is_empty())
            .collect()
    }

    /// The status document.
    pub(super) fn status_json(&self) -> String {
        let is_available = self.generation.is_some();
        let coordinators: Vec<_> = self
            .coordinators()
            .into_iter()
            .map(|address| json!({ "address": address, "reachable": true }))
            .collect();
        let mut status = json!({
            "client": {
                "cluster_file": { "path": self.cluster_file_path, "up_to_date": true },
                "coordinators": { "coordinators": coordinators, "quorum_reachable": true },
                "database_status": { "available": is_available, "healthy": is_available },
                "messages": [],
                "timestamp": self.now as u64,
            },
        });
        if let Some(generation) = &self.generation {
            status["cluster"] = self.cluster_json(generation);
        }
        status.to_string()
    }

    fn cluster_json(&self, generation: &GenerationDescription) -> Value {
        json!({
            "cluster_controller_timestamp": self.now as u64,
            "configuration": self.configuration_json(generation),
            "connection_string": self.connection_string,
            "database_available": true,
            "generation": generation.number,
            "machines": machines_json(generation),
            "messages": [],
            "processes": self.processes_json(generation),
            "protocol_version": PROTOCOL_VERSION,
            "recovery_state": { "active_generations": 1, "name": "fully_recovered" },
        })
    }

    fn configuration_json(&self, generation: &GenerationDescription) -> Value {
        let numbers = generation.configuration.iter();
        let mut configuration: Map<String, Value> = numbers
            .map(|(name, number)| ((*name).to_owned(), json!(number)))
            .collect();
        let copies = configuration
            .get("storage_replicas")
            .and_then(Value::as_u64);
        let mode = match copies {
            Some(1) => "single",
            Some(2) => "double",
            Some(3) => "triple",
            _ => "custom",
        };
        configuration.insert("redundancy_mode".into(), json!(mode));
        configuration.insert("storage_engine".into(), json!("memory"));
        configuration.insert(
            "coordinators_count".into(),
            json!(self.coordinators().len()),
        );
        configuration.insert("excluded_servers".into(), json!([]));
        configuration.into()
    }

    /// The processes under names of 32 hexadecimal digits, as FoundationDB gives them.
    fn processes_json(&self, generation: &GenerationDescription) -> Value {
        let coordinators = self.coordinators();
        let processes = (1..).zip(&generation.processes).map(|(number, process)| {
            let id = format!("{:032x}", self.cluster_id.wrapping_add(number));
            let is_coordinator = coordinators.contains(&process.address.as_str());
            let coordinator = is_coordinator.then_some("coordinator");
            let roles = process.roles.iter().map(|role| status_name(role));
            let roles: Vec<_> = coordinator
                .into_iter()
                .chain(roles)
                .map(|role| json!({ "role": role }))
                .collect();
            let description = json!({
                "address": process.address,
                "class_type": process.class,
                "excluded": false,
                "locality": {
                    "dcid": process.datacenter,
                    "machineid": process.machine,
                    "processid": id,
                    "zoneid": process.zone,
                },
                "machine_id": process.machine,
                "messages": [],
                "roles": roles,
            });
            (id, description)
        });
        processes.collect::<Map<_, _>>().into()
    }
}

fn machines_json(generation: &GenerationDescription) -> Value {
    let mut machines = Map::new();
    for process in &generation.processes {
        let address = process.address.rsplit_once(':');
        let address = address.map_or(process.address.as_str(), |(ip, _)| ip);
        let machine = machines.entry(process.machine.clone()).or_insert_with(
            || json!({ "address": address, "contributing_workers": 0, "excluded": false }),
        );
        let workers = machine["contributing_workers"].as_u64().unwrap_or(0);
        machine["contributing_workers"] = json!(workers + 1);
    }
    machines.into()
}

/// What the status calls a role.
fn status_name(role: &'static str) -> &'static str {
    match role {
        "clustercontroller" => "cluster_controller",
        "commitproxy" => "commit_proxy",
        "grvproxy" => "grv_proxy",
        "sequencer" => "master",
        "tlog" => "log",
        other => other,
    }
}

/// FoundationDB 7.4's.
const PROTOCOL_VERSION: &str = "fdb00b074000000";
