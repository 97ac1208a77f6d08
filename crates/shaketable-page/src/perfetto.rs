//! A trace for Perfetto, in its native form: protocol buffers with track events.
//!
//! Each client is a track with its transactions as slices, its attempts inside of them, and tracks
//! below it for its phases and operations. The cluster is a track with its recoveries and one track
//! for each process. A flow leads from the commit that won to the attempt that it made fail.
//! Findings are instant events on a track of their own, at the top.
//!
//! Slices of one track must nest, and what a client does at the same time does not: what overlaps
//! goes to further tracks of the same name, which Perfetto shows as one.

use crate::cluster::{Cluster, Lane, Span, run_end};
use crate::document::{evidence, fate, outcomes};
use crate::outcome::Outcome;
use crate::words::{self, Words, plain};
use messages::{DebugAnnotation, EventType, Trace, TracePacket, TrackDescriptor, TrackEvent};
use prost::Message;
use shaketable_explain::Explanation;
use shaketable_record::{Answer, Event, OperationId, Record};
use std::collections::BTreeMap;

/// Returns the run as a trace that Perfetto opens.
pub fn perfetto(record: &Record, explanation: &Explanation) -> Vec<u8> {
    let mut tracer = Tracer::new(record);
    tracer.findings(explanation);
    tracer.clients();
    tracer.cluster();
    tracer.finish()
}

/// The messages of Perfetto's schema that are used, with their field numbers.
mod messages {
    use prost::{Enumeration, Message};

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct Trace {
        #[prost(message, repeated, tag = "1")]
        pub(super) packet: Vec<TracePacket>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct TracePacket {
        #[prost(uint64, optional, tag = "8")]
        pub(super) timestamp: Option<u64>,
        #[prost(uint32, optional, tag = "10")]
        pub(super) trusted_packet_sequence_id: Option<u32>,
        #[prost(message, optional, tag = "11")]
        pub(super) track_event: Option<TrackEvent>,
        #[prost(uint32, optional, tag = "13")]
        pub(super) sequence_flags: Option<u32>,
        #[prost(message, optional, tag = "60")]
        pub(super) track_descriptor: Option<TrackDescriptor>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct TrackDescriptor {
        #[prost(uint64, optional, tag = "1")]
        pub(super) uuid: Option<u64>,
        #[prost(string, optional, tag = "2")]
        pub(super) name: Option<String>,
        #[prost(uint64, optional, tag = "5")]
        pub(super) parent_uuid: Option<u64>,
        #[prost(int32, optional, tag = "11")]
        pub(super) child_ordering: Option<i32>,
        #[prost(int32, optional, tag = "12")]
        pub(super) sibling_order_rank: Option<i32>,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct TrackEvent {
        #[prost(message, repeated, tag = "4")]
        pub(super) debug_annotations: Vec<DebugAnnotation>,
        #[prost(enumeration = "EventType", optional, tag = "9")]
        pub(super) r#type: Option<i32>,
        #[prost(uint64, optional, tag = "11")]
        pub(super) track_uuid: Option<u64>,
        #[prost(string, repeated, tag = "22")]
        pub(super) categories: Vec<String>,
        #[prost(string, optional, tag = "23")]
        pub(super) name: Option<String>,
        #[prost(fixed64, repeated, packed = "false", tag = "47")]
        pub(super) flow_ids: Vec<u64>,
        #[prost(fixed64, repeated, packed = "false", tag = "48")]
        pub(super) terminating_flow_ids: Vec<u64>,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, Enumeration)]
    #[repr(i32)]
    pub(super) enum EventType {
        Unspecified = 0,
        SliceBegin = 1,
        SliceEnd = 2,
        Instant = 3,
    }

    #[derive(Clone, PartialEq, Message)]
    pub(super) struct DebugAnnotation {
        #[prost(string, optional, tag = "6")]
        pub(super) string_value: Option<String>,
        #[prost(string, optional, tag = "10")]
        pub(super) name: Option<String>,
    }
}

/// Children of a track stand in the order of their ranks.
const EXPLICIT_ORDER: i32 = 3;
/// The packets of this sequence depend on none before it.
const STATE_CLEARED: u32 = 1;
const SEQUENCE: u32 = 1;

/// A track, by its identifier in the trace.
type Track = u64;

struct Tracer<'a> {
    record: &'a Record,
    words: Words<'a>,
    end: f64,
    tracks: Vec<TrackDescriptor>,
    /// Packets with their times. On each track they are in order.
    events: Vec<(u64, TrackEvent)>,
    /// The attempts whose commit is where a flow begins, by the commit's operation.
    flows: BTreeMap<OperationId, Vec<u64>>,
}

/// What is said of a slice or an instant.
struct Said {
    name: String,
    categories: Vec<&'static str>,
    notes: Vec<(&'static str, String)>,
    flows: Vec<u64>,
    ended_flows: Vec<u64>,
}

impl Said {
    fn new(name: impl Into<String>, category: &'static str) -> Said {
        Said {
            name: name.into(),
            categories: vec![category],
            notes: Vec::new(),
            flows: Vec::new(),
            ended_flows: Vec::new(),
        }
    }

    fn note(mut self, name: &'static str, text: impl Into<String>) -> Said {
        let text = text.into();
        if !text.is_empty() {
            self.notes.push((name, text));
        }
        self
    }
}

impl<'a> Tracer<'a> {
    fn new(record: &'a Record) -> Tracer<'a> {
        let mut flows = BTreeMap::<_, Vec<_>>::new();
        for (id, attempt) in record.attempts.iter().enumerate() {
            if let Some(operation) = winning_commit(record, attempt) {
                flows.entry(operation).or_default().push(flow_id(id));
            }
        }
        Tracer {
            record,
            words: Words::new(record),
            end: run_end(record),
            tracks: Vec::new(),
            events: Vec::new(),
            flows,
        }
    }

    fn track(&mut self, name: impl Into<String>, parent: Option<Track>) -> Track {
        let uuid = self.tracks.len() as Track + 1;
        self.tracks.push(TrackDescriptor {
            uuid: Some(uuid),
            name: Some(name.into()),
            parent_uuid: parent,
            child_ordering: Some(EXPLICIT_ORDER),
            sibling_order_rank: i32::try_from(uuid).ok(),
        });
        uuid
    }

    fn event(&mut self, time: f64, track: Track, kind: EventType, said: Option<Said>) {
        let mut event = TrackEvent {
            r#type: Some(kind as i32),
            track_uuid: Some(track),
            ..TrackEvent::default()
        };
        if let Some(said) = said {
            let annotation = |(name, text): (&str, String)| DebugAnnotation {
                name: Some(name.into()),
                string_value: Some(text),
            };
            event.name = Some(said.name);
            event.categories = said.categories.into_iter().map(Into::into).collect();
            event.debug_annotations = said.notes.into_iter().map(annotation).collect();
            event.flow_ids = said.flows;
            event.terminating_flow_ids = said.ended_flows;
        }
        self.events
            .push(((time.max(0.0) * 1e9).round() as u64, event));
    }

    fn slice(&mut self, track: Track, begun: f64, ended: f64, said: Said) {
        self.event(begun, track, EventType::SliceBegin, Some(said));
        self.event(ended.max(begun), track, EventType::SliceEnd, None);
    }

    fn instant(&mut self, track: Track, time: f64, said: Said) {
        self.event(time, track, EventType::Instant, Some(said));
    }

    /// Slices that may overlap, on as many tracks of the same name as they need.
    fn packed(&mut self, name: &str, parent: Track, mut slices: Vec<(f64, f64, Said)>) {
        slices.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut tracks: Vec<(Track, f64)> = Vec::new();
        for (begun, ended, said) in slices {
            let free = tracks.iter().position(|(_, until)| *until <= begun);
            let index = free.unwrap_or_else(|| {
                tracks.push((self.track(name, Some(parent)), 0.0));
                tracks.len() - 1
            });
            tracks[index].1 = ended.max(begun);
            self.slice(tracks[index].0, begun, ended, said);
        }
    }

    fn findings(&mut self, explanation: &Explanation) {
        if explanation.findings.is_empty() {
            return;
        }
        let track = self.track("Findings", None);
        let mut instants = Vec::new();
        for (number, finding) in explanation.findings.iter().enumerate() {
            for (step, proof) in finding.proof.iter().enumerate() {
                let (_, _, Some(time)) = evidence(self.record, proof.at) else {
                    continue;
                };
                let name = format!("{}.{} {}", number + 1, step + 1, plain(&proof.note));
                let said = Said::new(name, "finding")
                    .note("finding", plain(finding.name))
                    .note("what", plain(&finding.sentence))
                    .note("advice", plain(&finding.advice));
                instants.push((time, said));
            }
        }
        instants.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (time, said) in instants {
            self.instant(track, time, said);
        }
    }

    fn clients(&mut self) {
        let record = self.record;
        let root = self.track("Clients", None);
        let mut transactions = BTreeMap::<_, BTreeMap<u32, Vec<usize>>>::new();
        for client in 0..record.header.clients {
            transactions.entry(Some(client)).or_default();
        }
        for (id, attempt) in record.attempts.iter().enumerate() {
            let of_client = transactions.entry(attempt.client).or_default();
            of_client.entry(attempt.transaction).or_default().push(id);
        }
        let mut operations = BTreeMap::<Option<u32>, Vec<OperationId>>::new();
        for (id, operation) in (0..).zip(&record.operations) {
            let client = record.attempts[operation.attempt as usize].client;
            operations.entry(client).or_default().push(id);
        }
        let outcomes = outcomes(record);
        for (client, transactions) in transactions {
            let name = client.map_or("no client".into(), |client| format!("client {client}"));
            let track = self.track(&name, Some(root));
            self.phases(client, track);
            self.transactions(
                track,
                &name,
                transactions.into_values().collect(),
                &outcomes,
            );
            let operations = operations.remove(&client).unwrap_or_default();
            let slices = operations
                .into_iter()
                .map(|id| self.operation(id))
                .collect();
            self.packed("operations", track, slices);
        }
    }

    fn phases(&mut self, client: Option<u32>, parent: Track) {
        let slices = self
            .record
            .phases
            .iter()
            .filter(|phase| Some(phase.client) == client)
            .map(|phase| {
                let said = Said::new(plain(&phase.phase), "phase")
                    .note("workload", plain(&phase.workload))
                    .note("test", plain(&phase.test))
                    .note("error", plain(phase.error.as_deref().unwrap_or_default()));
                (phase.begun, phase.ended.unwrap_or(self.end), said)
            })
            .collect();
        self.packed("phases", parent, slices);
    }

    /// Transactions with their attempts, on as many tracks as overlap.
    fn transactions(
        &mut self,
        client: Track,
        name: &str,
        mut transactions: Vec<Vec<usize>>,
        outcomes: &[Outcome],
    ) {
        let begun = |ids: &[usize]| self.record.attempts[ids[0]].begun;
        transactions.sort_by(|a, b| begun(a).total_cmp(&begun(b)));
        let mut tracks: Vec<(Track, f64)> = Vec::new();
        for ids in transactions {
            let begun = self.record.attempts[ids[0]].begun;
            let ended = ids
                .iter()
                .map(|id| self.attempt_end(*id))
                .fold(begun, f64::max);
            let free = tracks.iter().position(|(_, until)| *until <= begun);
            let index = free.unwrap_or_else(|| {
                tracks.push((self.track(name, Some(client)), 0.0));
                tracks.len() - 1
            });
            tracks[index].1 = ended;
            let track = tracks[index].0;
            let transaction = self.record.attempts[ids[0]].transaction;
            let last = outcomes[ids[ids.len() - 1]];
            let said = Said::new(format!("transaction {transaction}"), "transaction")
                .note("attempts", ids.len().to_string())
                .note("outcome", last.name());
            self.event(begun, track, EventType::SliceBegin, Some(said));
            for (place, id) in ids.iter().enumerate() {
                // The next attempt may begin at the very end of this one, but not before it.
                let next = ids.get(place + 1).map(|id| self.record.attempts[*id].begun);
                let ended = self.attempt_end(*id).min(next.unwrap_or(f64::INFINITY));
                self.attempt(track, *id, ended, outcomes[*id]);
            }
            self.event(ended, track, EventType::SliceEnd, None);
        }
    }

    fn attempt(&mut self, track: Track, id: usize, ended: f64, outcome: Outcome) {
        let attempt = &self.record.attempts[id];
        let retries = attempt.retries.map(|retry| words::error(retry.error));
        let read_version = attempt.read_version.map(|version| version.to_string());
        let commit = attempt.commit.as_ref();
        let truth = commit.map(|commit| fate(self.record, commit.fate));
        let conflict = commit.and_then(|commit| commit.conflict.as_ref());
        let conflict_text = conflict.map(|conflict| self.words.range(&conflict.range));
        let name = format!("attempt {}: {}", attempt.number, outcome.name());
        let said = Said::new(name, "attempt")
            .note("ended", words::end(attempt.end))
            .note("truth", truth.unwrap_or_default())
            .note("retries after", retries.unwrap_or_default())
            .note("read version", read_version.unwrap_or_default())
            .note("conflict", conflict_text.unwrap_or_default());
        self.event(attempt.begun, track, EventType::SliceBegin, Some(said));
        if winning_commit(self.record, attempt).is_some() {
            let mut refused = Said::new("refused", "conflict");
            refused.ended_flows.push(flow_id(id));
            self.slice(track, ended, ended, refused);
        }
        self.event(ended.max(attempt.begun), track, EventType::SliceEnd, None);
    }

    /// When an attempt ended, as far as the record tells.
    fn attempt_end(&self, id: usize) -> f64 {
        let attempt = &self.record.attempts[id];
        attempt.ended.unwrap_or(self.end).max(attempt.begun)
    }

    fn operation(&self, id: OperationId) -> (f64, f64, Said) {
        let operation = &self.record.operations[id as usize];
        let place = operation
            .place
            .map(|place| &self.record.places[place as usize])
            .map(|place| format!("{}:{}", plain(&place.file), place.line));
        let attempt = &self.record.attempts[operation.attempt as usize];
        let mut said = Said::new(self.words.call(&operation.call), "operation")
            .note("answer", self.words.answer(&operation.answer))
            .note("transaction", attempt.transaction.to_string())
            .note("attempt", attempt.number.to_string())
            .note("line", place.unwrap_or_default());
        said.flows = self.flows.get(&id).cloned().unwrap_or_default();
        if matches!(operation.answer, Answer::Error(_)) {
            said.categories.push("error");
        }
        let ended = operation.answered.unwrap_or(operation.asked);
        (operation.asked, ended, said)
    }

    fn cluster(&mut self) {
        let record = self.record;
        let cluster = Cluster::of(record);
        let root = self.track("Cluster", None);
        let recoveries = self.spans(&cluster.recoveries, Lane::Cluster, "recovery");
        self.packed("recoveries", root, recoveries);
        let lanes = (0..record.header.clients).map(|client| {
            let name = format!("client {client}: network");
            (Lane::Client(client), name)
        });
        let processes = cluster.processes.iter().enumerate();
        let processes = processes.map(|(index, address)| (Lane::Process(index), address.clone()));
        let whole = [(Lane::Cluster, "events".to_owned())];
        for (lane, name) in whole.into_iter().chain(processes).chain(lanes) {
            let track = self.track(name, Some(root));
            let roles = cluster.roles.iter().filter(|span| span.lane == lane);
            let roles = roles.map(|span| {
                let said = Said::new(span.roles.clone(), "role");
                (span.begun, span.ended, said)
            });
            self.packed("roles", track, roles.collect());
            let down = self.spans(&cluster.down, lane, "down");
            self.packed("down", track, down);
            let clogged = self.spans(&cluster.clogged, lane, "clogged");
            self.packed("clogged", track, clogged);
            for (event, lanes) in record.events.iter().zip(&cluster.lanes) {
                if lanes.contains(&lane) && event.name != "Role" {
                    self.instant(track, event.time, event_said(event));
                }
            }
        }
    }

    /// The spans of a lane as slices.
    fn spans(&self, spans: &[Span], lane: Lane, name: &'static str) -> Vec<(f64, f64, Said)> {
        let slice = |span: &Span| {
            let event = &self.record.events[span.event];
            let said = Said::new(name, "cluster")
                .note("event", plain(&event.name))
                .note("details", words::details(event));
            (span.begun, span.ended, said)
        };
        let of_lane = spans.iter().filter(|span| span.lane == lane);
        of_lane.map(slice).collect()
    }

    fn finish(mut self) -> Vec<u8> {
        // Stable: on each track the order of what happens at once stays.
        self.events.sort_by_key(|(time, _)| *time);
        let descriptors = self.tracks.into_iter().map(|track| TracePacket {
            track_descriptor: Some(track),
            ..TracePacket::default()
        });
        let events = self.events.into_iter().map(|(time, event)| TracePacket {
            timestamp: Some(time),
            track_event: Some(event),
            ..TracePacket::default()
        });
        let mut packet: Vec<TracePacket> = descriptors.chain(events).collect();
        for packet in &mut packet {
            packet.trusted_packet_sequence_id = Some(SEQUENCE);
        }
        if let Some(first) = packet.first_mut() {
            first.sequence_flags = Some(STATE_CLEARED);
        }
        Trace { packet }.encode_to_vec()
    }
}

fn event_said(event: &Event) -> Said {
    let category = if event.fault { "fault" } else { "event" };
    Said::new(plain(&event.name), category).note("details", words::details(event))
}

/// The commit operation of the attempt that made this one fail.
fn winning_commit(record: &Record, attempt: &shaketable_record::Attempt) -> Option<OperationId> {
    let winner = attempt.commit.as_ref()?.conflict.as_ref()?.winner?;
    let winner = record.committed[winner as usize].attempt?;
    let commit = record.attempts[winner as usize].commit.as_ref()?;
    Some(commit.operation)
}

/// The flow that ends at an attempt.
fn flow_id(attempt: usize) -> u64 {
    attempt as u64 + 1
}
