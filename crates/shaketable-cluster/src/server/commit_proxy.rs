//! The commit proxy: takes transactions from clients to the logs.
//!
//! Transactions are collected into batches. Batches run as a pipeline of five steps: a version from
//! the sequencer; verdicts from the resolvers; then, in version order, everything that depends on
//! metadata (which transactions a lock rejects, which storage servers receive which mutation);
//! durability on all logs; the report to the sequencer. Clients are answered only after that, so
//! every read version handed out after an answer sees the commit.
//!
//! A proxy that loses contact with any of the other roles ends without answering. Recovery decides
//! what became of its transactions, and clients have to find out.
//!
//! Here are the batches and their way through the pipeline; `resolution` asks the resolvers, and
//! `decision` does what depends on metadata.

mod decision;
mod resolution;

pub(crate) use decision::assign_tags;
use decision::{Decided, Fate};

use crate::data::key::{KeyBound, NORMAL_END};
use crate::data::versionstamp;
use crate::error::Error;
use crate::proto::{
    Commit, CommitFate, CommitOutcome, CommitProxyInterface, CommitTransaction, GetKeyLocations,
    Key, KeyRange, MutationKind, ShardLocation, StorageInterface, Value, Version, Versionstamp,
};
use crate::server::messages::{
    ChangeCoordinators, CommitEmptyBatch, CommitVersion, Epoch, GetCommitVersion, LogBatch,
    LogEntry, LogInterface, PushBatch, ReportCommitted, Tag, UpdateStorages,
};
use crate::server::metadata::{COORDINATORS_KEY, Metadata, Team};
use crate::server::resolver::ResolverInterface;
use crate::server::role::{Role, WaitFailure};
use crate::server::sequencer::SequencerInterface;
use crate::stress;
use shaketable_kernel::{AsyncVar, Disconnected, Endpoint, Notify, Reply, Requesting, Time};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// How much one batch's latency moves the average.
const BATCH_INTERVAL_ALPHA: f64 = 0.1;

/// What a commit proxy needs to know about its generation.
#[derive(Clone, Debug)]
pub struct CommitProxySpec {
    /// Its number among the commit proxies.
    pub index: usize,
    /// The generation.
    pub epoch: Epoch,
    /// Where it asks for other coordinators.
    pub orders: Endpoint<ChangeCoordinators>,
    /// Where versions come from.
    pub sequencer: SequencerInterface,
    /// The resolvers, each with the key its range begins with; the range ends where the next one
    /// begins.
    pub resolvers: Rc<[(Key, ResolverInterface)]>,
    /// Where commits become durable.
    pub logs: Rc<[LogInterface]>,
    /// The version before the first batch.
    pub version: Version,
    /// The metadata at that version.
    pub metadata: Metadata,
    /// The storage servers by identity.
    pub storages: Rc<[StorageInterface]>,
}

/// A commit proxy as the cluster controller sees it.
#[derive(Clone, Debug)]
pub struct CommitProxyHandle {
    /// What clients see.
    pub interface: CommitProxyInterface,
    /// Makes versions advance.
    pub commit_empty_batch: Endpoint<CommitEmptyBatch>,
    /// Announces storage servers that were added or moved.
    pub update_storages: Endpoint<UpdateStorages>,
    /// Breaks when the proxy ends.
    pub failure: Endpoint<WaitFailure>,
}

type CommitReply = Reply<<Commit as shaketable_kernel::Request>::Reply>;

struct Batch {
    commits: Vec<Commit>,
    /// One for each commit but those of rivals.
    replies: Vec<Option<CommitReply>>,
    bytes: usize,
    even_if_empty: bool,
}

impl Batch {
    /// An empty batch, with room for one commit: few ever have more.
    fn new() -> Batch {
        Batch {
            commits: Vec::with_capacity(1),
            replies: Vec::with_capacity(1),
            bytes: 0,
            even_if_empty: false,
        }
    }

    fn insert(&mut self, place: usize, (commit, reply): (Commit, Option<CommitReply>)) {
        self.commits.insert(place, commit);
        self.replies.insert(place, reply);
    }
}

/// What is known of a batch from when it has its version until its clients are answered.
struct Begun {
    /// What overrides of decisions make of its transactions, if any are overridden.
    fates: Vec<Option<CommitFate>>,
    /// Whether all of them are rejected.
    too_old: bool,
    /// They as they were before the resolvers were asked, if there is a history.
    asked: Option<Vec<Commit>>,
}

impl Begun {
    fn has(&self, fate: CommitFate) -> bool {
        self.fates.contains(&Some(fate))
    }
}

struct CommitProxy {
    role: Role,
    spec: CommitProxySpec,
    metadata: RefCell<Metadata>,
    storages: RefCell<BTreeMap<Tag, StorageInterface>>,
    collecting: RefCell<Batch>,
    arrived: Notify,
    interval: Cell<f64>,
    last_batch: Cell<Time>,
    batches: Cell<u64>,
    /// The numbers of the batches that may ask for a version, and that may use the metadata.
    version_turn: AsyncVar<u64>,
    metadata_turn: AsyncVar<u64>,
    /// The version of this proxy's newest batch.
    version: Cell<Version>,
    known_committed: Cell<Version>,
}

/// Starts a commit proxy.
pub fn start(role: &Role, spec: CommitProxySpec) -> CommitProxyHandle {
    let proxy = Rc::new(CommitProxy {
        role: role.clone(),
        metadata: RefCell::new(spec.metadata.clone()),
        storages: RefCell::default(),
        collecting: RefCell::new(Batch::new()),
        arrived: Notify::new(),
        interval: Cell::new(role.env().knobs().commit_transaction_batch_interval_min),
        last_batch: Cell::new(Time::ZERO),
        batches: Cell::new(0),
        version_turn: AsyncVar::new(0),
        metadata_turn: AsyncVar::new(0),
        version: Cell::new(spec.version),
        known_committed: Cell::new(spec.version),
        spec,
    });
    proxy.update_storages(&proxy.spec.storages);
    let [for_commit, for_locations, for_empty, for_storages, batcher] =
        [(); 5].map(|()| proxy.clone());
    role.spawn(async move { batcher.run().await });
    CommitProxyHandle {
        interface: CommitProxyInterface {
            commit: role.serve(move |commit, reply| for_commit.receive(commit, reply)),
            get_key_locations: role.serve(move |request: GetKeyLocations, reply| {
                let env = for_locations.role.env();
                let full =
                    env.buggify_with_chance("commit proxy has no memory for locations", 1e-4);
                reply.send(if full {
                    Err(Error::COMMIT_PROXY_MEMORY_LIMIT_EXCEEDED)
                } else {
                    Ok(for_locations.locations(&request))
                });
            }),
        },
        commit_empty_batch: role.serve(move |CommitEmptyBatch, reply| {
            for_empty.ask_for_batch();
            reply.send(());
        }),
        update_storages: role.serve(move |UpdateStorages(storages), reply| {
            for_storages.update_storages(&storages);
            reply.send(());
        }),
        failure: role.serve_failure(),
    }
}

impl CommitProxy {
    /// What the database knows of its coordinators.
    fn coordinators(&self) -> Option<Value> {
        self.metadata.borrow().get(COORDINATORS_KEY).cloned()
    }

    fn update_storages(&self, storages: &[StorageInterface]) {
        *self.storages.borrow_mut() = storages
            .iter()
            .map(|storage| (storage.id, storage.clone()))
            .collect();
    }

    fn receive(self: &Rc<Self>, commit: Commit, reply: CommitReply) {
        if commit.transaction.fate == Some(CommitFate::RequestLost) {
            self.close_connection(&reply);
            return;
        }
        if self.loses_connection("a commit", stress::LOSE_COMMIT, &reply) {
            return;
        }
        let knobs = self.role.env().knobs();
        let full = {
            let mut batch = self.collecting.borrow_mut();
            batch.bytes += commit_bytes(&commit.transaction);
            let place = if commit.first_in_batch {
                0
            } else {
                batch.commits.len()
            };
            let rival = self.rival(&commit).map(|rival| (rival, None));
            batch.insert(place, (commit, Some(reply)));
            if let Some(rival) = rival {
                batch.insert(place, rival);
            }
            batch.commits.len() as i64 >= knobs.commit_transaction_batch_count_max
                || batch.bytes as i64 >= knobs.commit_transaction_batch_bytes_min
        };
        if full {
            self.send_batch();
        } else {
            self.arrived.notify_all();
        }
    }

    /// The commit of a client that writes what another one has read, just before that one commits:
    /// what two clients at the same rows do to each other. It changes no row.
    fn rival(&self, commit: &Commit) -> Option<Commit> {
        if !self.role.env().meets_rival() {
            return None;
        }
        let read = commit.transaction.read_conflict_ranges.iter();
        // Nobody else knows the system key by which a client makes its own commits conflict.
        let of_users = read.filter(|range| range.begin < NORMAL_END);
        let write_conflict_ranges: Vec<KeyRange> = of_users.cloned().collect();
        (!write_conflict_ranges.is_empty()).then(|| Commit {
            transaction: CommitTransaction {
                read_snapshot: commit.transaction.read_snapshot,
                write_conflict_ranges,
                lock_aware: commit.transaction.lock_aware,
                ..CommitTransaction::default()
            },
            first_in_batch: false,
            idempotency_id: None,
        })
    }

    /// Whether stress breaks the connection to a client now.
    fn loses_connection(&self, site: &'static str, chance: f64, reply: &CommitReply) -> bool {
        let env = self.role.env();
        let lost = env.stresses_towards(site, chance, reply.from());
        if lost {
            self.close_connection(reply);
        }
        lost
    }

    fn close_connection(&self, reply: &CommitReply) {
        self.role.env().process().close_connection(reply.from());
    }

    fn ask_for_batch(&self) {
        self.collecting.borrow_mut().even_if_empty = true;
        self.arrived.notify_all();
    }

    fn locations(&self, request: &GetKeyLocations) -> Vec<ShardLocation> {
        let knobs = self.role.env().knobs();
        let idle = self.role.env().process().now().since(self.last_batch.get());
        if !self.role.env().is_instant() && idle > knobs.empty_batch_interval() {
            // Shard changes made by other proxies arrive with a batch; an idle proxy would never
            // learn of them.
            self.ask_for_batch();
        }
        let metadata = self.metadata.borrow();
        let storages = self.storages.borrow();
        let location = |(range, team): (KeyRange, &Team)| {
            let servers = team.serving.iter().filter_map(|tag| storages.get(tag));
            let servers = servers.cloned().collect();
            ShardLocation { range, servers }
        };
        let shards = metadata.whole_shards_of(&request.range);
        if request.reverse {
            shards.rev().take(request.limit).map(location).collect()
        } else {
            shards.take(request.limit).map(location).collect()
        }
    }

    async fn run(self: Rc<Self>) {
        let env = self.role.env().clone();
        let knobs = env.knobs();
        loop {
            if self.nothing_to_send() {
                self.arrived.notified().await;
            }
            if env.is_instant() {
                env.process().yield_now().await;
            } else {
                let idle = env.process().now().since(self.last_batch.get());
                let wait = (self.interval.get() - idle)
                    .max(knobs.commit_transaction_batch_interval_from_idle);
                env.process().sleep(wait).await;
            }
            self.send_batch();
        }
    }

    fn nothing_to_send(&self) -> bool {
        let batch = self.collecting.borrow();
        batch.commits.is_empty() && !batch.even_if_empty
    }

    fn send_batch(self: &Rc<Self>) {
        if self.nothing_to_send() {
            return;
        }
        let batch = self.collecting.replace(Batch::new());
        let number = self.batches.get();
        self.batches.set(number + 1);
        self.last_batch.set(self.role.env().process().now());
        // If the role ends first they are dropped in this order: the clients of the batch notice it
        // before those who wait for the next one.
        let mut under_way = (batch, self.clone());
        self.role.spawn(async move {
            let (batch, proxy) = &mut under_way;
            if proxy.commit_batch(number, batch).await.is_err() {
                // Clients that were not answered notice it before the role ends.
                batch.replies.clear();
                proxy.role.stop();
            }
        });
    }

    /// Takes a batch through the pipeline. What takes no time is done by other functions: this one
    /// would keep room for their variables while it waits, for each batch.
    async fn commit_batch(&self, number: u64, batch: &mut Batch) -> Result<(), Disconnected> {
        let here = self.role.env().process();
        let started = here.now();

        self.version_turn.wait_for(|turn| *turn == number).await;
        let question = &self.spec.sequencer.get_commit_version;
        let place = here.request_reliably(question, GetCommitVersion).await?;
        let received = self.version.replace(place.version);
        assert!(
            received <= place.previous && place.previous < place.version,
            "versions grow"
        );
        self.version_turn.set(number + 1);

        let begun = self.begin(&mut batch.commits, place);
        let resolutions = {
            let questions = self.ask_resolvers(&mut batch.commits, place, received);
            let mut resolutions = Vec::with_capacity(questions.len());
            for question in questions {
                resolutions.push(question.await?);
            }
            resolutions
        };

        self.metadata_turn.wait_for(|turn| *turn == number).await;
        let commits = std::mem::take(&mut batch.commits);
        let Decided {
            outcomes,
            entries,
            coordinators,
        } = self.decide_batch(place, received, commits, resolutions);
        if let Some(connection_string) = coordinators {
            // This batch and all after it wait for the next generation, which does not know them.
            let change = ChangeCoordinators {
                epoch: self.spec.epoch,
                connection_string,
            };
            here.request_reliably(&self.spec.orders, change).await?;
        }
        self.note_accepted(&begun, &outcomes, place);
        let state = self.metadata.borrow().database_state().clone();
        self.metadata_turn.set(number + 1);

        for push in self.push(&begun, place, entries)? {
            push.await?;
        }
        if begun.has(CommitFate::ProxyDiesBeforeAnswering)
            || (self.role.env()).stresses("commit proxy dies before it tells", stress::KILL_PROXY)
        {
            return Err(Disconnected::MaybeDelivered);
        }
        self.known_committed
            .set(place.version.max(self.known_committed.get()));
        let report = ReportCommitted {
            version: place.version,
            state: state.clone(),
        };
        here.request_reliably(&self.spec.sequencer.report_committed, report)
            .await?;

        let replies = std::mem::take(&mut batch.replies);
        self.answer(&begun, place, state.metadata_version, outcomes, replies);
        self.learn_interval(here.now().since(started));
        Ok(())
    }

    /// Prepares the transactions of a batch when its version is known.
    fn begin(&self, commits: &mut Vec<Commit>, place: CommitVersion) -> Begun {
        let env = self.role.env();
        let fates: Vec<Option<CommitFate>> = if env.process().is_deciding() {
            commits.iter().map(|one| one.transaction.fate).collect()
        } else {
            Vec::new()
        };
        let rejected = if env.is_stressed() {
            stress::BATCH_TOO_OLD
        } else {
            0.01
        };
        let too_old = env.buggify_with_chance("commit proxy rejects a batch as too old", rejected);
        if too_old {
            commits.clear();
        }
        assert!(
            commits.len() <= 1 << 16,
            "a versionstamp has two bytes for the place"
        );
        for (index, commit) in commits.iter_mut().enumerate() {
            fill_versionstamps(&mut commit.transaction, place.version, index);
        }
        Begun {
            fates,
            too_old,
            asked: env.history().map(|_| commits.clone()),
        }
    }

    /// Tells the history, if there is one, which transactions commit unless the generation ends.
    fn note_accepted(&self, begun: &Begun, outcomes: &[Fate], place: CommitVersion) {
        let (Some(history), Some(asked)) = (self.role.env().history(), &begun.asked) else {
            return;
        };
        for (index, _) in outcomes
            .iter()
            .enumerate()
            .filter(|(_, fate)| **fate == Ok(None))
        {
            let stamp = stamp(place.version, index);
            history.accept(self.spec.version, stamp, &asked[index].transaction);
        }
    }

    /// Sends a batch to all logs.
    fn push(
        &self,
        begun: &Begun,
        place: CommitVersion,
        entries: Vec<LogEntry>,
    ) -> Result<Vec<Requesting<()>>, Disconnected> {
        let env = self.role.env();
        let batch = Rc::new(LogBatch::new(place.previous, place.version, entries));
        if begun.has(CommitFate::ProxyDiesBeforeWriting)
            || env.stresses("commit proxy dies before it writes", stress::KILL_PROXY)
        {
            return Err(Disconnected::MaybeDelivered);
        }
        let known_committed = self.known_committed.get();
        assert!(known_committed <= place.previous, "logs sync in order");
        let logs = self.spec.logs.iter();
        let pushes = logs.map(|log| {
            let push = PushBatch {
                batch: batch.clone(),
                known_committed,
            };
            env.process().request_reliably(&log.push, push)
        });
        Ok(pushes.collect())
    }

    /// Answers the clients of a batch that is durable.
    fn answer(
        &self,
        begun: &Begun,
        place: CommitVersion,
        metadata_version: Option<Value>,
        outcomes: Vec<Fate>,
        replies: Vec<Option<CommitReply>>,
    ) {
        if begun.too_old {
            for reply in replies.into_iter().flatten() {
                reply.send(Err(Error::TRANSACTION_TOO_OLD));
            }
            return;
        }
        assert_eq!(outcomes.len(), replies.len(), "each client has an answer");
        for (index, (outcome, reply)) in outcomes.into_iter().zip(replies).enumerate() {
            let Some(reply) = reply else { continue };
            if begun.fates.get(index) == Some(&Some(CommitFate::ReplyLost)) {
                self.close_connection(&reply);
                continue;
            }
            if self.loses_connection("a reply", stress::LOSE_COMMIT_REPLY, &reply) {
                continue;
            }
            reply.send(outcome.map(|verdict| match verdict {
                None => CommitOutcome::Committed {
                    stamp: stamp(place.version, index),
                    metadata_version: metadata_version.clone(),
                },
                Some(conflicting_ranges) => CommitOutcome::Conflict { conflicting_ranges },
            }));
        }
    }

    fn learn_interval(&self, latency: f64) {
        let knobs = self.role.env().knobs();
        let target = latency * knobs.commit_transaction_batch_interval_latency_fraction;
        let average =
            BATCH_INTERVAL_ALPHA * target + (1.0 - BATCH_INTERVAL_ALPHA) * self.interval.get();
        self.interval.set(
            average.clamp(
                knobs.commit_transaction_batch_interval_min,
                knobs
                    .commit_transaction_batch_interval_max
                    .max(knobs.commit_transaction_batch_interval_min),
            ),
        );
    }
}

fn stamp(version: Version, index: usize) -> Versionstamp {
    Versionstamp {
        version,
        batch_index: index as u16,
    }
}

/// Turns versionstamped mutations into plain ones; a stamped key is written, so it joins the write
/// conflicts.
fn fill_versionstamps(transaction: &mut CommitTransaction, version: Version, index: usize) {
    for mutation in &mut transaction.mutations {
        let stamped_key = match mutation.kind {
            MutationKind::SetVersionstampedKey => true,
            MutationKind::SetVersionstampedValue => false,
            _ => continue,
        };
        *mutation = versionstamp::resolve(mutation.clone(), stamp(version, index));
        if stamped_key {
            let begin = mutation.param1.clone();
            let end = KeyBound::after(&begin).to_key();
            transaction
                .write_conflict_ranges
                .push(KeyRange { begin, end });
        }
    }
}

fn commit_bytes(transaction: &CommitTransaction) -> usize {
    let mutations: usize = transaction
        .mutations
        .iter()
        .map(|mutation| mutation.param1.len() + mutation.param2.len() + 44)
        .sum();
    let ranges = transaction
        .read_conflict_ranges
        .iter()
        .chain(&transaction.write_conflict_ranges);
    mutations
        + ranges
            .map(|range| range.begin.len() + range.end.len() + 24)
            .sum::<usize>()
}
