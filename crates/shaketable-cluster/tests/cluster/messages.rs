//! What a cluster without faults promises, tested through its own messages.

use bytes::Bytes;
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::error::Error;
use shaketable_cluster::proto::*;
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{Endpoint, Kernel, ProcessId, ProcessSpec};

/// A client that knows only messages.
pub struct RawClient {
    pub kernel: Kernel,
    pub process: ProcessId,
    pub cluster: Cluster,
}

pub fn key(text: &str) -> Key {
    Bytes::copy_from_slice(text.as_bytes())
}

pub fn single(text: &str) -> KeyRange {
    KeyRange {
        begin: key(text),
        end: key(&format!("{text}\0")),
    }
}

pub fn set(name: &str, value: &str) -> Mutation {
    Mutation {
        kind: MutationKind::SetValue,
        param1: key(name),
        param2: key(value),
    }
}

impl RawClient {
    pub fn new(kernel: &Kernel, config: ClusterConfig) -> RawClient {
        let cluster = Cluster::start(kernel, config);
        let process = kernel.add_process(ProcessSpec {
            name: "client".into(),
            ..Default::default()
        });
        RawClient {
            kernel: kernel.clone(),
            process,
            cluster,
        }
    }

    pub fn simulation(seed: u64) -> RawClient {
        let kernel = Kernel::simulation(seed);
        let config = ClusterConfig::simulation(&kernel, &LayoutOptions::default(), false).unwrap();
        RawClient::new(&kernel, config)
    }

    pub fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let limited = self.kernel.timeout(10_000.0, future);
        self.kernel
            .block_on(limited)
            .unwrap()
            .expect("the cluster answers within 10,000 seconds")
    }

    pub async fn info(&self) -> ClientDbInfo {
        let leader = self.cluster.leader();
        leader.wait_for(|leader| leader.is_some()).await;
        let endpoint: Endpoint<OpenDatabase> = leader.get().unwrap();
        endpoint
            .request(
                self.process,
                OpenDatabase {
                    known_generation: 0,
                },
            )
            .await
            .unwrap()
    }

    pub async fn read_version(&self) -> ReadVersion {
        let request = GetReadVersion {
            transaction_count: 1,
            priority: TransactionPriority::Default,
            causal_read_risky: false,
            tags: Vec::new(),
        };
        let proxy = self.info().await.grv_proxies[0].get_read_version.clone();
        proxy.request(self.process, request).await.unwrap().unwrap()
    }

    pub async fn commit(&self, transaction: CommitTransaction) -> Result<CommitOutcome, Error> {
        let commit = Commit {
            transaction,
            first_in_batch: false,
            idempotency_id: None,
        };
        let proxy = self.info().await.commit_proxies[0].commit.clone();
        proxy.request(self.process, commit).await.unwrap()
    }

    /// Commits mutations that depend on nothing; returns the version.
    pub async fn write(&self, mutations: Vec<Mutation>) -> Version {
        let write_conflict_ranges = mutations
            .iter()
            .map(|mutation| match mutation.kind {
                MutationKind::ClearRange => KeyRange {
                    begin: mutation.param1.clone(),
                    end: mutation.param2.clone(),
                },
                _ => KeyRange {
                    begin: mutation.param1.clone(),
                    end: [&mutation.param1[..], b"\0"].concat().into(),
                },
            })
            .collect();
        let transaction = CommitTransaction {
            mutations,
            write_conflict_ranges,
            ..Default::default()
        };
        match self.commit(transaction).await {
            Ok(CommitOutcome::Committed { stamp, .. }) => stamp.version,
            other => panic!("a blind write was not committed: {other:?}"),
        }
    }

    pub async fn location(&self, key: &[u8]) -> ShardLocation {
        let range = KeyRange {
            begin: Bytes::copy_from_slice(key),
            end: [key, b"\0"].concat().into(),
        };
        let proxy = self.info().await.commit_proxies[0]
            .get_key_locations
            .clone();
        let request = GetKeyLocations {
            range,
            limit: 1,
            reverse: false,
        };
        proxy
            .request(self.process, request)
            .await
            .unwrap()
            .unwrap()
            .remove(0)
    }

    pub async fn get(&self, name: &str, version: Version) -> Result<Option<Value>, StorageError> {
        let server = &self.location(name.as_bytes()).await.servers[0];
        server
            .get_value
            .request(
                self.process,
                GetValue {
                    key: key(name),
                    version,
                    is_early: false,
                },
            )
            .await
            .unwrap()
    }

    pub async fn get_now(&self, name: &str) -> Option<Value> {
        let version = self.read_version().await.version;
        self.get(name, version).await.unwrap()
    }
}

#[test]
fn a_commit_is_visible_to_every_later_read_version_and_on_every_replica() {
    for seed in 0..30 {
        let client = RawClient::simulation(seed);
        client.run(async {
            let before = client.read_version().await.version;
            let version = client.write(vec![set("a", "1"), set("z", "2")]).await;
            let after = client.read_version().await.version;
            assert!(before < version && version <= after);
            for name in ["a", "z"] {
                let location = client.location(name.as_bytes()).await;
                let replicas = client.cluster.layout().configuration.storage_replicas;
                assert_eq!(location.servers.len(), replicas, "seed {seed}");
                for server in location.servers.iter() {
                    let ask = |version| {
                        let request = GetValue {
                            key: key(name),
                            version,
                            is_early: false,
                        };
                        server.get_value.request(client.process, request)
                    };
                    assert_eq!(ask(before).await.unwrap(), Ok(None));
                    assert!(ask(after).await.unwrap().unwrap().is_some());
                }
            }
        });
    }
}

#[test]
fn of_two_transactions_that_read_what_the_other_writes_one_conflicts() {
    let client = RawClient::simulation(3);
    client.run(async {
        let read_snapshot = client.read_version().await.version;
        let transaction = |report_conflicting_keys| CommitTransaction {
            read_snapshot,
            read_conflict_ranges: vec![single("other"), single("k")],
            write_conflict_ranges: vec![single("k")],
            mutations: vec![set("k", "1")],
            report_conflicting_keys,
            ..CommitTransaction::default()
        };
        let first = client.commit(transaction(true)).await;
        assert!(
            matches!(first, Ok(CommitOutcome::Committed { .. })),
            "{first:?}"
        );
        match client.commit(transaction(true)).await {
            Ok(CommitOutcome::Conflict { conflicting_ranges }) => {
                assert_eq!(conflicting_ranges, [1]);
            }
            other => panic!("expected a conflict, got {other:?}"),
        }
    });
}

#[test]
fn a_version_leaves_the_window_even_if_nothing_is_committed() {
    let client = RawClient::simulation(4);
    client.run(async {
        let version = client.write(vec![set("k", "1")]).await;
        let too_old = Err(StorageError::Code(Error::TRANSACTION_TOO_OLD));
        client.kernel.sleep(4.0).await;
        assert_eq!(client.get("k", version).await, Ok(Some(key("1"))));
        client.kernel.sleep(6.0).await;
        assert_eq!(client.get("k", version).await, too_old);
        let late = CommitTransaction {
            read_snapshot: version,
            read_conflict_ranges: vec![single("elsewhere")],
            ..Default::default()
        };
        assert_eq!(
            client.commit(late).await.unwrap_err(),
            Error::TRANSACTION_TOO_OLD
        );
        assert_eq!(client.get_now("k").await, Some(key("1")));
    });
}

#[test]
fn a_read_in_the_future_waits_for_a_second() {
    let client = RawClient::simulation(5);
    client.run(async {
        let version = client.write(vec![set("k", "1")]).await;
        let asked = client.kernel.now();
        let answer = client.get("k", version + 3_600_000_000).await;
        assert_eq!(answer, Err(StorageError::Code(Error::FUTURE_VERSION)));
        let waited = client.kernel.now().since(asked);
        assert!((1.0..1.1).contains(&waited), "waited {waited} s");
    });
}

#[test]
fn versions_pass_at_a_million_a_second() {
    let client = RawClient::simulation(6);
    client.run(async {
        let first = client.read_version().await.version;
        let began = client.kernel.now();
        client.kernel.sleep(60.0).await;
        let passed = client.kernel.now().since(began) * 1e6;
        let second = client.read_version().await.version;
        let difference = (second - first) as f64 - passed;
        assert!(difference.abs() < 2.1e6, "{difference}");
    });
}

#[test]
fn stamped_keys_carry_the_version_and_count_as_written() {
    let client = RawClient::simulation(7);
    client.run(async {
        let read_snapshot = client.read_version().await.version;
        let stamped = Mutation {
            kind: MutationKind::SetVersionstampedKey,
            param1: Bytes::from_static(b"s/0123456789\x02\0\0\0"),
            param2: key("v"),
        };
        let version = client.write(vec![stamped]).await;
        let stamp = Versionstamp {
            version,
            batch_index: 0,
        };
        let name: Key = [b"s/", &stamp.to_bytes()[..]].concat().into();
        let server = client.location(&name).await.servers[0].clone();
        let request = GetValue {
            key: name.clone(),
            version,
            is_early: false,
        };
        let value = server
            .get_value
            .request(client.process, request)
            .await
            .unwrap();
        assert_eq!(value, Ok(Some(key("v"))));
        let reader = CommitTransaction {
            read_snapshot,
            read_conflict_ranges: vec![KeyRange {
                begin: key("s/"),
                end: key("s0"),
            }],
            ..Default::default()
        };
        let outcome = client.commit(reader).await;
        assert!(
            matches!(outcome, Ok(CommitOutcome::Conflict { .. })),
            "{outcome:?}"
        );
    });
}

#[test]
fn a_lock_travels_with_read_versions_and_stops_those_who_do_not_know_of_it() {
    for seed in 0..10 {
        let client = RawClient::simulation(seed);
        client.run(async {
            let system = |name: &[u8], value: &str| Mutation {
                kind: MutationKind::SetValue,
                param1: Bytes::copy_from_slice(name),
                param2: key(value),
            };
            assert!(!client.read_version().await.locked);
            let lock = vec![
                system(b"\xff/dbLocked", "id"),
                system(b"\xff/metadataVersion", "m1"),
            ];
            client.write(lock).await;
            let now = client.read_version().await;
            assert!(now.locked);
            assert_eq!(now.metadata_version, Some(key("m1")));
            // Every proxy must know of the lock, not only the one that committed it.
            for proxy in client.info().await.commit_proxies.iter() {
                for lock_aware in [false, true] {
                    let transaction = CommitTransaction {
                        mutations: vec![set("k", "v")],
                        lock_aware,
                        ..Default::default()
                    };
                    let commit = Commit {
                        transaction,
                        first_in_batch: false,
                        idempotency_id: None,
                    };
                    let outcome = proxy.commit.request(client.process, commit).await.unwrap();
                    let committed = matches!(outcome, Ok(CommitOutcome::Committed { .. }));
                    assert_eq!(committed, lock_aware, "seed {seed}");
                }
            }
        });
    }
}

#[test]
fn a_watch_fires_when_its_value_changes_and_not_before() {
    let client = RawClient::simulation(8);
    client.run(async {
        let version = client.write(vec![set("k", "1")]).await;
        let server = client.location(b"k").await.servers[0].clone();
        let watch = |value: &str, version| {
            let request = WatchValue {
                key: key("k"),
                value: Some(key(value)),
                version,
                fate: None,
            };
            server.watch_value.request(client.process, request)
        };
        let mut waiting = Box::pin(watch("1", version));
        assert!(client.kernel.timeout(10.0, &mut waiting).await.is_none());
        client.write(vec![set("k", "1"), set("l", "1")]).await;
        assert!(client.kernel.timeout(10.0, &mut waiting).await.is_none());
        let changed = client.write(vec![set("k", "2")]).await;
        assert_eq!(waiting.await.unwrap(), Ok(changed));
        assert!(
            watch("1", version).await.unwrap().is_ok(),
            "a late watcher is told at once"
        );
    });
}

#[test]
fn an_idle_cluster_does_nothing() {
    let client = RawClient::simulation(9);
    client.run(async {
        client.write(vec![set("k", "1")]).await;
        client.kernel.sleep(20.0).await;
        let before = client.kernel.events();
        client.kernel.sleep(1000.0).await;
        let events = client.kernel.events() - before;
        assert!(events < 10, "{events} events in an idle cluster");
    });
}

#[test]
fn the_same_seed_does_the_same() {
    let run = |seed| {
        let client = RawClient::simulation(seed);
        client.run(async {
            for number in 0..20 {
                client.write(vec![set("k", &number.to_string())]).await;
                client.get_now("k").await;
            }
        });
        client.kernel.fingerprint()
    };
    assert_eq!(run(11), run(11));
    assert_ne!(run(11), run(12));
}

#[test]
fn replicas_that_nothing_has_broken_are_the_same() {
    for seed in 0..10 {
        let client = RawClient::simulation(seed);
        client.run(async {
            let rows = (0..100).map(|number| set(&format!("row/{number:03}"), "as written"));
            client.write(rows.collect()).await;
            // Servers learn with the next commits that no recovery will undo this one.
            for _ in 0..3 {
                client.kernel.sleep(1.0).await;
                client.write(vec![set("later", "as written")]).await;
            }
            client.kernel.sleep(1.0).await;
            let replicas = client.location(b"row/050").await.servers.len() as u64;
            let compared = client.cluster.compare_replicas();
            assert_eq!(compared.difference, None, "seed {seed}");
            // Each pair of servers has all of them.
            let pairs = replicas * (replicas - 1) / 2;
            assert!(compared.rows_compared >= 100 * pairs, "seed {seed}");
        });
    }
}
