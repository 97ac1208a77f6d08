//! What the processes of a cluster went through, from the events of a record.
//!
//! Events are points in time; a person wants to see what lasted: when a process was down, when an
//! address was clogged, when the database was recovering. The names and details read here are those
//! of the trace. An event of an unknown name is shown as a point on the lane of its machine, so a
//! record with new events needs no new page.

use crate::words::plain;
use shaketable_record::{Event, Record};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// A row of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Lane {
    /// The cluster as a whole.
    Cluster,
    /// A client, from 0.
    Client(u32),
    /// A process of the cluster, by its place in [`Cluster::processes`].
    Process(usize),
}

/// What lasted. Times are seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Span {
    pub(crate) lane: Lane,
    pub(crate) begun: f64,
    pub(crate) ended: f64,
    /// The event that began it.
    pub(crate) event: usize,
}

/// The roles of a process, from a change of them to the next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RoleSpan {
    pub(crate) lane: Lane,
    pub(crate) begun: f64,
    pub(crate) ended: f64,
    /// Their names, with commas.
    pub(crate) roles: String,
}

/// What a cluster went through.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Cluster {
    /// The addresses of its processes, in order.
    pub(crate) processes: Vec<String>,
    /// When processes were down.
    pub(crate) down: Vec<Span>,
    /// Which roles processes played.
    pub(crate) roles: Vec<RoleSpan>,
    /// When the network held messages back, for each lane that it concerns.
    pub(crate) clogged: Vec<Span>,
    /// When no commits were accepted, because a recovery was under way.
    pub(crate) recoveries: Vec<Span>,
    /// The lanes on which each event is shown as a point, by the event's place in the record.
    pub(crate) lanes: Vec<Vec<Lane>>,
}

impl Cluster {
    pub(crate) fn of(record: &Record) -> Cluster {
        let processes = processes(&record.events);
        let end = run_end(record);
        let finder = Finder {
            by_address: processes
                .iter()
                .enumerate()
                .map(|(index, address)| (*address, index))
                .collect(),
            clients: record.header.clients,
        };
        let mut cluster = Cluster {
            processes: processes.iter().map(SocketAddr::to_string).collect(),
            ..Cluster::default()
        };
        let mut down = BTreeMap::<Lane, (f64, usize)>::new();
        let mut recovery = None;
        let mut partitions = BTreeMap::<(String, String), (f64, usize)>::new();
        let mut roles = BTreeMap::<Lane, Roles>::new();
        for (index, event) in record.events.iter().enumerate() {
            let lanes = finder.lanes(event);
            match event.name.as_str() {
                "RebootingProcess" | "KillProcess" => {
                    for lane in &lanes {
                        down.entry(*lane).or_insert((event.time, index));
                    }
                }
                "SimulatedMachineProcess" => {
                    for lane in &lanes {
                        if let Some((begun, event_index)) = down.remove(lane) {
                            let span = (*lane, begun, event.time, event_index);
                            cluster.down.push(Span::from(span));
                        }
                    }
                }
                "MasterRecoveryState" => {
                    let code = detail(event, "StatusCode").and_then(|code| code.parse().ok());
                    match (code.unwrap_or(0) < ACCEPTING_COMMITS, recovery) {
                        (true, None) => recovery = Some((event.time, index)),
                        (false, Some((begun, first))) => {
                            let span = (Lane::Cluster, begun, event.time, first);
                            cluster.recoveries.push(Span::from(span));
                            recovery = None;
                        }
                        _ => {}
                    }
                }
                "Role" => {
                    for lane in &lanes {
                        let span = roles.entry(*lane).or_default().change(*lane, event);
                        cluster.roles.extend(span);
                    }
                }
                "Partitioned" => {
                    partitions.insert(between(event), (event.time, index));
                }
                "PartitionHealed" => {
                    if let Some((begun, first)) = partitions.remove(&between(event)) {
                        cluster.clog(&lanes, begun, event.time, first);
                    }
                }
                _ => {}
            }
            let seconds = detail(event, "Seconds").or_else(|| detail(event, "Delay"));
            if event.name.contains("Clog")
                && let Some(seconds) = seconds.and_then(|text| text.parse::<f64>().ok())
            {
                let until = (event.time + seconds.max(0.0)).min(end.max(event.time));
                cluster.clog(&lanes, event.time, until, index);
            }
            cluster.lanes.push(lanes);
        }
        // What had not ended when the run did.
        for (lane, (begun, index)) in down {
            cluster.down.push(Span::from((lane, begun, end, index)));
        }
        if let Some((begun, index)) = recovery {
            let span = (Lane::Cluster, begun, end, index);
            cluster.recoveries.push(Span::from(span));
        }
        for (lane, roles) in roles {
            cluster.roles.extend(roles.span(lane, end));
        }
        for (begun, index) in partitions.into_values() {
            let lanes = cluster.lanes[index].clone();
            cluster.clog(&lanes, begun, end, index);
        }
        cluster.clogged.sort_by(|a, b| a.begun.total_cmp(&b.begun));
        cluster.down.sort_by(|a, b| a.begun.total_cmp(&b.begun));
        cluster
    }

    fn clog(&mut self, lanes: &[Lane], begun: f64, ended: f64, event: usize) {
        let spans = lanes
            .iter()
            .map(|lane| Span::from((*lane, begun, ended, event)));
        self.clogged.extend(spans);
    }
}

/// The roles that a process plays, and since when.
#[derive(Default)]
struct Roles {
    names: BTreeSet<String>,
    since: f64,
}

impl Roles {
    /// Takes up a role or gives it up. Returns what was until now, if that lasted.
    fn change(&mut self, lane: Lane, event: &Event) -> Option<RoleSpan> {
        let name = role_name(detail(event, "As").unwrap_or_default());
        let span = self.span(lane, event.time);
        if self.since < event.time {
            self.since = event.time;
        }
        match detail(event, "Transition") {
            Some("End") => self.names.remove(&name),
            _ => self.names.insert(name),
        };
        span
    }

    fn span(&self, lane: Lane, ended: f64) -> Option<RoleSpan> {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        (!names.is_empty() && self.since < ended).then(|| RoleSpan {
            lane,
            begun: self.since,
            ended,
            roles: names.join(", "),
        })
    }
}

/// A role as people call it.
fn role_name(name: &str) -> String {
    match name {
        "clustercontroller" => "cluster controller".into(),
        "commitproxy" => "commit proxy".into(),
        "grvproxy" => "GRV proxy".into(),
        "tlog" => "log".into(),
        other => plain(other),
    }
}

/// From this code on a recovery accepts commits.
const ACCEPTING_COMMITS: i32 = 11;

impl From<(Lane, f64, f64, usize)> for Span {
    fn from((lane, begun, ended, event): (Lane, f64, f64, usize)) -> Span {
        Span {
            lane,
            begun,
            ended,
            event,
        }
    }
}

/// When the last thing in a record happened.
pub(crate) fn run_end(record: &Record) -> f64 {
    let attempts = record
        .attempts
        .iter()
        .map(|attempt| attempt.ended.unwrap_or(attempt.begun));
    let operations = record
        .operations
        .iter()
        .map(|operation| operation.answered.unwrap_or(operation.asked));
    let phases = record
        .phases
        .iter()
        .map(|phase| phase.ended.unwrap_or(phase.begun));
    let verdict = record.header.verdict.time.into_iter();
    attempts
        .chain(operations)
        .chain(phases)
        .chain(verdict)
        .filter(|time| time.is_finite())
        .fold(record.header.seconds.max(0.0), f64::max)
}

/// Finds the lanes of addresses.
struct Finder {
    by_address: BTreeMap<SocketAddr, usize>,
    clients: u32,
}

impl Finder {
    /// The lanes that an event concerns: those that it names, else that of its machine.
    fn lanes(&self, event: &Event) -> Vec<Lane> {
        const NAMES: [&str; 6] = ["From", "To", "IP", "Address", "A", "B"];
        let named = event
            .details
            .iter()
            .filter(|(name, _)| NAMES.contains(&name.as_str()))
            .map(|(_, value)| value.as_str());
        let mut lanes: BTreeSet<Lane> = named.flat_map(|text| self.of_address(text)).collect();
        if lanes.is_empty() {
            lanes.extend(self.of_address(&event.machine));
        }
        if lanes.is_empty() {
            lanes.insert(Lane::Cluster);
        }
        lanes.into_iter().collect()
    }

    fn of_address(&self, text: &str) -> Vec<Lane> {
        let (ip, port) = match (text.parse::<SocketAddr>(), text.parse::<IpAddr>()) {
            (Ok(address), _) => (address.ip(), Some(address.port())),
            (_, Ok(ip)) => (ip, None),
            _ => return Vec::new(),
        };
        if let Some(client) = client_of(ip) {
            return match client < self.clients {
                true => vec![Lane::Client(client)],
                false => Vec::new(),
            };
        }
        self.by_address
            .iter()
            .filter(|(address, _)| address.ip() == ip && port.is_none_or(|p| p == address.port()))
            .map(|(_, index)| Lane::Process(*index))
            .collect()
    }
}

/// The client that lives at an address: the first one at 3.4.3.1.
fn client_of(ip: IpAddr) -> Option<u32> {
    match ip {
        IpAddr::V4(ip) => match ip.octets() {
            [3, 4, 3, number] if number > 0 => Some(u32::from(number) - 1),
            _ => None,
        },
        IpAddr::V6(_) => None,
    }
}

/// Every process of the cluster that an event names, in order.
fn processes(events: &[Event]) -> Vec<SocketAddr> {
    let mut found = BTreeSet::new();
    for event in events {
        let addresses = ["Address", "From", "To"].map(|name| detail(event, name));
        let named = addresses.into_iter().flatten();
        for text in named.chain([event.machine.as_str()]) {
            if let Ok(address) = text.parse::<SocketAddr>()
                && !address.ip().is_unspecified()
                && client_of(address.ip()).is_none()
            {
                found.insert(address);
            }
        }
    }
    found.into_iter().collect()
}

/// The two sides of a partition, whichever is named first.
fn between(event: &Event) -> (String, String) {
    let mut sides: Vec<&str> = event
        .details
        .iter()
        .map(|(_, side)| side.as_str())
        .collect();
    sides.sort_unstable();
    let side = |index: usize| sides.get(index).copied().unwrap_or_default().to_owned();
    (side(0), side(1))
}

fn detail<'a>(event: &'a Event, name: &str) -> Option<&'a str> {
    let (_, value) = event.details.iter().find(|(key, _)| key == name)?;
    Some(value)
}

#[cfg(test)]
mod tests;
