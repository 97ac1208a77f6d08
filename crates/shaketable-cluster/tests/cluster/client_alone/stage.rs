//! A cluster of one task, for tests of the client alone: it answers every message between client
//! and servers from one ordered map, and misbehaves when a test tells it to.

use bytes::Bytes;
use shaketable_cluster::client::{Connection, Database, Transaction};
use shaketable_cluster::error::Error;
use shaketable_cluster::keeper::value_after;
use shaketable_cluster::knobs::LiveKnobs;
use shaketable_cluster::process::Process;
use shaketable_cluster::process::exceptions::Announced;
use shaketable_cluster::proto::*;
use shaketable_kernel::{Kernel, Priority, ProcessId, ProcessSpec, Reply, Request, RequestStream};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// What goes wrong with the next commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It is committed, but the reply is lost.
    LoseReply,
    /// It is lost before anything happens.
    LoseRequest,
    /// It is on its way until [`Server::let_go`].
    Hold,
    /// The same, and the client is told this error meanwhile.
    HoldAndTell(Error),
}

/// The stage: a kernel, the one server, and a client.
pub struct Stage {
    pub kernel: Kernel,
    pub database: Database,
    pub server: Rc<Server>,
    pub client: ProcessId,
    leader: Announced<shaketable_kernel::Endpoint<OpenDatabase>>,
}

/// A commit on its way, and its client if that still waits.
type Held = (Commit, Option<Reply<<Commit as Request>::Reply>>);

/// The values of a key over time.
type Versions = Vec<(Version, Option<Value>)>;

/// What the server holds.
#[derive(Default)]
pub struct Server {
    rows: RefCell<BTreeMap<Key, Versions>>,
    history: RefCell<Vec<(Version, KeyRange)>>,
    version: Cell<Version>,
    pub locked: Cell<bool>,
    pub troubles: RefCell<VecDeque<Trouble>>,
    held: RefCell<Vec<Held>>,
    /// How many requests of each kind were served.
    pub reads: Cell<usize>,
    pub read_versions: Cell<usize>,
    pub commits: RefCell<Vec<CommitTransaction>>,
    /// Where the key space is cut into shards.
    pub cuts: RefCell<Vec<Key>>,
    /// How many storage requests get the reply that the shard has moved.
    pub moved: Cell<usize>,
    metadata_version: RefCell<Option<Value>>,
}

impl Stage {
    pub fn new(api_version: i32) -> Stage {
        let kernel = Kernel::simulation(11);
        let process = |name: &str, last: u8| {
            kernel.add_process(ProcessSpec {
                name: name.into(),
                address: shaketable_kernel::Address::v4(1, 0, 0, last, 4500),
                ..ProcessSpec::default()
            })
        };
        let (home, client) = (process("server", 1), process("client", 2));
        let server = Rc::new(Server {
            version: Cell::new(1_000),
            ..Server::default()
        });
        let leader = server.start(&kernel, home);
        let mut stage = Stage {
            database: open(&kernel, client, api_version, &leader),
            kernel,
            server,
            client,
            leader,
        };
        stage.database = stage.open(api_version);
        stage
    }

    /// Another handle of the same database.
    pub fn open(&self, api_version: i32) -> Database {
        open(&self.kernel, self.client, api_version, &self.leader)
    }

    pub fn run<F: Future>(&self, future: F) -> F::Output {
        self.kernel.block_on(future).expect("the test goes on")
    }

    pub fn transaction(&self) -> Transaction {
        self.database.create_transaction()
    }

    pub fn put(&self, rows: &[(&str, &str)]) {
        let transaction = self.transaction();
        for (key, value) in rows {
            transaction.set(key.to_string().into(), value.to_string().into());
        }
        self.run(transaction.commit()).unwrap();
    }

    pub fn get(&self, transaction: &Transaction, key: &str) -> Result<Option<Bytes>, Error> {
        self.run(transaction.get(key.to_string().into(), false))
    }
}

fn open(
    kernel: &Kernel,
    process: ProcessId,
    api_version: i32,
    leader: &Announced<shaketable_kernel::Endpoint<OpenDatabase>>,
) -> Database {
    let connection = Connection {
        api_version,
        knobs: LiveKnobs::default(),
        has_shared_state: false,
        is_instant: false,
        buggify: None,
        leader: leader.clone(),
        connection_string: "stage:stage@1.0.0.1:4500".into(),
        cluster_file_path: "fdb.cluster".into(),
        cluster_id: 1,
    };
    Database::open(Process::new(kernel, process), connection)
}

impl Server {
    fn start(
        self: &Rc<Self>,
        kernel: &Kernel,
        home: ProcessId,
    ) -> Announced<shaketable_kernel::Endpoint<OpenDatabase>> {
        let serve = Serving {
            kernel: kernel.clone(),
            home,
            server: self.clone(),
        };
        let storage = StorageInterface {
            id: 1,
            address: shaketable_kernel::Address::v4(1, 0, 0, 1, 4500),
            get_value: serve.each(|server, q: GetValue, reply| {
                let answer = server
                    .readable(q.version)
                    .map(|()| server.at(&q.key, q.version));
                reply.send(answer);
            }),
            get_key: serve.each(|server, q: GetKey, reply| {
                reply.send(server.readable(q.version).map(|()| server.resolve(q)));
            }),
            get_key_values: serve.each(|server, q: GetKeyValues, reply| {
                reply.send(server.readable(q.version).and_then(|()| server.range(&q)));
            }),
            get_mapped_key_values: serve.each(|_, _: GetMappedKeyValues, reply| {
                reply.send(Err(StorageError::Code(Error::UNSUPPORTED_OPERATION)));
            }),
            watch_value: serve.watching(),
            get_metrics: serve.each(|_, _: GetStorageMetrics, reply| reply.send(Ok(0))),
            get_split_points: serve.each(|_, _: GetSplitPoints, reply| reply.send(Ok(vec![]))),
        };
        let storage: Rc<[StorageInterface]> = Rc::new([storage]);
        let grv = GrvProxyInterface {
            get_read_version: serve.each(|server, _: GetReadVersion, reply| {
                server.read_versions.set(server.read_versions.get() + 1);
                reply.send(Ok(ReadVersion {
                    version: server.version.get(),
                    locked: server.locked.get(),
                    metadata_version: server.metadata_version.borrow().clone(),
                }));
            }),
        };
        let commit = CommitProxyInterface {
            commit: serve.each(|server, q: Commit, reply| {
                match server.troubles.borrow_mut().pop_front() {
                    Some(Trouble::LoseRequest) => {}
                    Some(Trouble::LoseReply) => drop(server.commit(q)),
                    Some(Trouble::Hold) => server.held.borrow_mut().push((q, Some(reply))),
                    Some(Trouble::HoldAndTell(error)) => {
                        reply.send(Err(error));
                        server.held.borrow_mut().push((q, None));
                    }
                    None => reply.send(Ok(server.commit(q))),
                }
            }),
            get_key_locations: serve.each(move |server, q: GetKeyLocations, reply| {
                let mut edges = vec![Bytes::new()];
                edges.extend(server.cuts.borrow().iter().cloned());
                edges.push(Bytes::from_static(b"\xff\xff"));
                let mut shards: Vec<ShardLocation> = edges
                    .windows(2)
                    .map(|edge| KeyRange {
                        begin: edge[0].clone(),
                        end: edge[1].clone(),
                    })
                    .filter(|range| range.begin < q.range.end && q.range.begin < range.end)
                    .map(|range| ShardLocation {
                        range,
                        servers: storage.clone(),
                    })
                    .collect();
                if q.reverse {
                    shards.reverse();
                }
                shards.truncate(1);
                reply.send(Ok(shards));
            }),
        };
        let info = ClientDbInfo {
            generation: 1,
            grv_proxies: Rc::new([grv]),
            commit_proxies: Rc::new([commit]),
            roles: Rc::new([("storage", home)]),
            configuration: Rc::new([("logs", 1)]),
            coordinators: None,
        };
        let (endpoint, mut requests) = kernel.listen::<OpenDatabase>(home);
        let controller = async move {
            let mut unanswered = Vec::new();
            loop {
                let (question, reply) = requests.recv().await;
                if question.known_generation == info.generation {
                    unanswered.push(reply);
                } else {
                    reply.send(info.clone());
                }
            }
        };
        kernel
            .spawn(home, Priority::DefaultEndpoint, controller)
            .detach();
        let leader = Announced::default();
        leader.announce(endpoint);
        leader
    }

    fn readable(&self, version: Version) -> Result<(), StorageError> {
        self.reads.set(self.reads.get() + 1);
        if self.moved.get() > 0 {
            self.moved.set(self.moved.get() - 1);
            return Err(StorageError::WrongShardServer);
        }
        if version > self.version.get() {
            return Err(StorageError::Code(Error::FUTURE_VERSION));
        }
        Ok(())
    }

    fn at(&self, key: &Key, version: Version) -> Option<Value> {
        let rows = self.rows.borrow();
        let versions = rows.get(key)?;
        versions
            .iter()
            .rev()
            .find(|(v, _)| *v <= version)
            .and_then(|(_, value)| value.clone())
    }

    fn rows_at(&self, range: &KeyRange, version: Version) -> Vec<KeyValue> {
        let keys: Vec<Key> = self
            .rows
            .borrow()
            .range(range.begin.clone()..range.end.clone())
            .map(|r| r.0.clone())
            .collect();
        let row = |key: Key| self.at(&key, version).map(|value| KeyValue { key, value });
        keys.into_iter().filter_map(row).collect()
    }

    fn everything() -> KeyRange {
        KeyRange {
            begin: Bytes::new(),
            end: Bytes::from_static(b"\xff\xff"),
        }
    }

    /// The shard that resolves a selector with this key.
    fn shard_of(&self, key: &Key, backward: bool) -> KeyRange {
        let mut shard = Server::everything();
        for cut in self.cuts.borrow().iter() {
            if cut < key || (cut == key && !backward) {
                shard.begin = cut.clone();
            } else {
                shard.end = cut.clone();
                break;
            }
        }
        shard
    }

    /// Resolves a selector inside its shard, or returns the selector to continue with beside it.
    fn resolve(&self, q: GetKey) -> KeySelector {
        let selector = without_or_equal(q.selector);
        let shard = self.shard_of(&selector.key, selector.offset <= 0);
        let rows = self.rows_at(&shard, q.version);
        let base = rows.partition_point(|row| row.key < selector.key) as i64;
        let index = base + i64::from(selector.offset) - 1;
        if index < 0 {
            return KeySelector {
                key: shard.begin,
                or_equal: false,
                offset: (index + 1) as i32,
            };
        }
        match rows.get(index as usize) {
            Some(row) => KeySelector {
                key: row.key.clone(),
                or_equal: true,
                offset: 0,
            },
            None => {
                let offset = (index - rows.len() as i64 + 1) as i32;
                KeySelector {
                    key: shard.end,
                    or_equal: false,
                    offset,
                }
            }
        }
    }

    fn range(&self, q: &GetKeyValues) -> Result<KeyValues, StorageError> {
        let near = if q.reverse { &q.end } else { &q.begin };
        let shard = self.shard_of(
            &near.key,
            if q.reverse {
                near.offset <= 1
            } else {
                near.offset <= 0
            },
        );
        let rows = self.rows_at(&shard, q.version);
        let index = |selector: &KeySelector| {
            let base = rows.partition_point(|row| row.key < selector.key) as i64;
            base + i64::from(selector.offset) - 1
        };
        let (from, to) = (index(&q.begin), index(&q.end));
        if from < 0 || to < 0 || from > rows.len() as i64 || to > rows.len() as i64 {
            return Err(StorageError::WrongShardServer);
        }
        let mut found: Vec<KeyValue> = rows
            .get(from as usize..to as usize)
            .unwrap_or_default()
            .to_vec();
        if q.reverse {
            found.reverse();
        }
        let mut bytes = 0;
        let mut reply = KeyValues::default();
        for row in found {
            if reply.rows.len() == q.limit || bytes >= q.limit_bytes {
                reply.more = true;
                break;
            }
            bytes += 24 + row.key.len() + row.value.len();
            reply.rows.push(row);
        }
        Ok(reply)
    }

    /// Commits what was held.
    pub fn let_go(&self) {
        for (commit, reply) in self.held.take() {
            let outcome = self.commit(commit);
            if let Some(reply) = reply {
                reply.send(Ok(outcome));
            }
        }
    }

    fn commit(&self, commit: Commit) -> CommitOutcome {
        let transaction = commit.transaction;
        self.commits.borrow_mut().push(transaction.clone());
        let conflicting_ranges: Vec<u32> = (0..)
            .zip(&transaction.read_conflict_ranges)
            .filter(|(_, read)| {
                self.history.borrow().iter().any(|(version, write)| {
                    *version > transaction.read_snapshot
                        && write.begin < read.end
                        && read.begin < write.end
                })
            })
            .map(|(index, _)| index)
            .collect();
        if !conflicting_ranges.is_empty() {
            return CommitOutcome::Conflict { conflicting_ranges };
        }
        let version = self.version.get() + 100;
        self.version.set(version);
        let stamp = Versionstamp {
            version,
            batch_index: 0,
        };
        for mutation in transaction.mutations {
            let Mutation {
                kind,
                param1,
                param2,
            } = mutation;
            let changed: Vec<(Key, Option<Value>)> = if kind == MutationKind::ClearRange {
                let cleared = KeyRange {
                    begin: param1,
                    end: param2,
                };
                self.rows_at(&cleared, version)
                    .into_iter()
                    .map(|row| (row.key, None))
                    .collect()
            } else {
                let stamped = [
                    MutationKind::SetVersionstampedKey,
                    MutationKind::SetVersionstampedValue,
                ];
                assert!(!stamped.contains(&kind), "nothing is stamped on this stage");
                let value = value_after(kind, self.at(&param1, version).as_deref(), &param2);
                if param1 == Bytes::from_static(b"\xff/metadataVersion") {
                    *self.metadata_version.borrow_mut() = value.clone();
                }
                vec![(param1, value)]
            };
            for (key, value) in changed {
                self.rows
                    .borrow_mut()
                    .entry(key)
                    .or_default()
                    .push((version, value));
            }
        }
        if let Some(id) = commit.idempotency_id {
            // As FoundationDB lays such a row out: the version and the high byte of the batch
            // index; after two numbers that no client looks at, each id with its length and the low
            // byte.
            let key = [b"\xff\x02/idmp/", &version.to_be_bytes()[..], &[0]].concat();
            let value = [&[0; 16], &[id.len() as u8][..], &id, &[0]].concat();
            self.rows
                .borrow_mut()
                .entry(key.into())
                .or_default()
                .push((version, Some(value.into())));
        }
        let writes = transaction
            .write_conflict_ranges
            .into_iter()
            .map(|range| (version, range));
        self.history.borrow_mut().extend(writes);
        let metadata_version = self.metadata_version.borrow().clone();
        CommitOutcome::Committed {
            stamp,
            metadata_version,
        }
    }
}

/// Listens for each kind of message in turn.
struct Serving {
    kernel: Kernel,
    home: ProcessId,
    server: Rc<Server>,
}

impl Serving {
    fn each<Q: Request>(
        &self,
        answer: impl Fn(&Rc<Server>, Q, Reply<Q::Reply>) + 'static,
    ) -> shaketable_kernel::Endpoint<Q> {
        let (endpoint, mut requests): (_, RequestStream<Q>) = self.kernel.listen(self.home);
        let server = self.server.clone();
        let serve = async move {
            loop {
                let (question, reply) = requests.recv().await;
                answer(&server, question, reply);
            }
        };
        self.kernel
            .spawn(self.home, Priority::DefaultEndpoint, serve)
            .detach();
        endpoint
    }

    fn watching(&self) -> shaketable_kernel::Endpoint<WatchValue> {
        let (kernel, home) = (self.kernel.clone(), self.home);
        self.each(move |server, q: WatchValue, reply| {
            let (server, clock) = (server.clone(), kernel.clone());
            let watch = async move {
                while server.at(&q.key, server.version.get()) == q.value {
                    clock.sleep(0.05).await;
                }
                reply.send(Ok(server.version.get()));
            };
            kernel
                .spawn(home, Priority::DefaultEndpoint, watch)
                .detach();
        })
    }
}

/// An equivalent selector whose reference key does not count itself.
fn without_or_equal(mut selector: KeySelector) -> KeySelector {
    if selector.or_equal {
        selector.key = [&selector.key[..], b"\0"].concat().into();
        selector.or_equal = false;
    }
    selector
}
