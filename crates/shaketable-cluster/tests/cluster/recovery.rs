//! Death and recovery, clause by clause: what a client sees of a cluster whose parts die, come
//! back, or are cut off.
//!
//! `proof/` shows that nothing goes wrong in ten thousand runs; here each promise is tested
//! separately, at a moment chosen on purpose.

use bytes::Bytes;
use shaketable_cluster::client::{ConflictRangeKind, Database, Transaction};
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::error::Error;
use shaketable_cluster::faults::start_together;
use shaketable_cluster::kill::Target;
use shaketable_cluster::proto::{
    ClientDbInfo, Commit, CommitOutcome, CommitTransaction, GetKeyLocations, GetReadVersion,
    KeyRange, Mutation, MutationKind, OpenDatabase, StorageError, StorageInterface,
    TransactionPriority, Version, WatchValue,
};
use shaketable_cluster::saboteur::Saboteur;
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{
    Address, Disconnected, Kernel, KillKind, Priority, ProcessId, ProcessSpec, Task,
};
use std::collections::BTreeSet;
use std::net::IpAddr;

const API_VERSION: i32 = 740;
/// By how much a recovery jumps ahead.
const MAX_VERSIONS_IN_FLIGHT: Version = 100_000_000;
const VERSIONS_PER_SECOND: f64 = 1e6;
/// Simulated seconds after which nothing more will come.
const PATIENCE: f64 = 300.0;

struct World {
    kernel: Kernel,
    cluster: Cluster,
    client: ProcessId,
    database: Database,
}

impl World {
    /// Eight machines with three processes each, in this configuration. The cluster has answered
    /// once.
    fn new(seed: u64, configuration: &str) -> World {
        let kernel = Kernel::simulation(seed);
        let options = LayoutOptions {
            machine_count: Some(8),
            processes_per_machine: Some(3),
            datacenters: Some(1),
            coordinators: Some(1),
            config: Some(configuration.to_owned()),
            ..LayoutOptions::default()
        };
        let config = ClusterConfig::simulation(&kernel, &options, false).expect("a layout");
        let cluster = Cluster::start(&kernel, config);
        let client = kernel.add_process(ProcessSpec {
            name: "client".into(),
            address: Address::v4(3, 4, 3, 1, 1),
            ..ProcessSpec::default()
        });
        let database = cluster.open_database(client, API_VERSION);
        let world = World {
            kernel,
            cluster,
            client,
            database,
        };
        world.run(write(&world.database, "first", "1"));
        world.cluster.set_faults_enabled(true);
        world
    }

    fn run<T>(&self, future: impl Future<Output = T>) -> T {
        let limited = self.kernel.timeout(PATIENCE, future);
        let done = self.kernel.block_on(limited).expect("nobody is stuck");
        done.expect("it does not take for ever")
    }

    fn sleep(&self, seconds: f64) {
        self.run(self.kernel.sleep(seconds));
    }

    fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T> {
        let priority = Priority::DefaultEndpoint;
        self.kernel.spawn(self.client, priority, future)
    }

    /// The processes that play a role.
    fn playing(&self, role: &str) -> Vec<ProcessId> {
        let roles = self.cluster.roles();
        let playing = roles.iter().filter(|(name, _)| *name == role);
        playing.map(|(_, process)| *process).collect()
    }

    fn ip(&self, process: ProcessId) -> IpAddr {
        self.kernel.process(process).address.ip
    }

    fn epoch(&self) -> u64 {
        self.cluster.epoch().expect("there is a generation")
    }

    /// Waits for the generation after this one.
    fn await_generation_after(&self, epoch: u64) {
        self.run(async {
            while self.cluster.epoch().is_none_or(|now| now <= epoch) {
                self.kernel.sleep(0.1).await;
            }
        });
    }

    /// What clients know of the generation.
    fn client_info(&self) -> ClientDbInfo {
        let leader = self.cluster.leader().get().expect("there is a controller");
        let question = OpenDatabase {
            known_generation: 0,
        };
        let answer = self.run(leader.request(self.client, question));
        answer.expect("the controller answers")
    }

    /// The storage servers that hold a key.
    fn storage_servers(&self, name: &str) -> Vec<StorageInterface> {
        let question = GetKeyLocations {
            range: single(name),
            limit: 1,
            reverse: false,
        };
        let proxy = &self.client_info().commit_proxies[0];
        let answer = self.run(proxy.get_key_locations.request(self.client, question));
        let shards = answer.expect("a proxy answers").expect("it knows");
        shards[0].servers.to_vec()
    }

    /// Where the replicas of a key are.
    fn replicas(&self, name: &str) -> Vec<IpAddr> {
        let servers = self.storage_servers(name);
        let processes = servers.iter().map(|server| server.get_value.process());
        processes.map(|process| self.ip(process)).collect()
    }

    /// A cluster whose only log is on a different machine from the only replica of a key.
    fn with_replica_apart(name: &str) -> World {
        let apart = |world: &World| {
            let log = world.ip(world.playing("tlog")[0]);
            !world.replicas(name).contains(&log)
        };
        let mut worlds = (0..20).map(|seed| World::new(seed, "single logs=1"));
        worlds.find(apart).expect("a cluster with a replica apart")
    }

    /// Does something to the connections between the replicas of a key and the logs.
    fn between_replicas_and_logs(&self, name: &str, change: fn(&Kernel, IpAddr, IpAddr)) {
        for replica in self.replicas(name) {
            for log in self.playing("tlog") {
                change(&self.kernel, replica, self.ip(log));
            }
        }
    }

    /// Kills one process exactly as requested; with `RebootProcess` it comes back after some
    /// seconds.
    fn kill(&self, process: ProcessId, kind: KillKind) {
        let killed = self.cluster.kill(&Target::Process(process), kind);
        assert_eq!(killed, [(process, kind)]);
    }

    fn read(&self, name: &'static str) -> Option<Bytes> {
        self.run(read(&self.database, name))
    }
}

fn key(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

fn single(name: &str) -> KeyRange {
    KeyRange {
        begin: key(name),
        end: key(&format!("{name}\0")),
    }
}

/// Sets a key, retrying until it succeeds.
async fn write(database: &Database, name: &str, value: &str) {
    let transaction = database.create_transaction();
    loop {
        transaction.set(key(name), key(value));
        match transaction.commit().await {
            Ok(()) => return,
            Err(error) => transaction
                .on_error(error)
                .await
                .expect("it is tried again"),
        }
    }
}

async fn read(database: &Database, name: &str) -> Option<Bytes> {
    let transaction = database.create_transaction();
    loop {
        match transaction.get(key(name), false).await {
            Ok(value) => return value,
            Err(error) => transaction
                .on_error(error)
                .await
                .expect("it is tried again"),
        }
    }
}

/// Gets a read version, retrying until there is one.
async fn read_version(database: &Database) -> Version {
    let transaction = database.create_transaction();
    loop {
        match transaction.get_read_version().await {
            Ok(version) => return version,
            Err(error) => transaction
                .on_error(error)
                .await
                .expect("it is tried again"),
        }
    }
}

/// A version that can be read now.
async fn version(database: &Database) -> Version {
    let read = begun(database).await.get_read_version().await;
    read.expect("it has one")
}

/// A transaction that has its read version, and nothing else yet.
async fn begun(database: &Database) -> Transaction {
    let transaction = database.create_transaction();
    while let Err(error) = transaction.get_read_version().await {
        transaction
            .on_error(error)
            .await
            .expect("it is tried again");
    }
    transaction
}

#[test]
fn the_death_of_any_role_of_the_transaction_system_begins_a_generation_1e8_versions_later() {
    let roles = [
        "sequencer",
        "commitproxy",
        "grvproxy",
        "resolver",
        "tlog",
        "clustercontroller",
    ];
    for (seed, role) in (0..).zip(roles) {
        for kind in [KillKind::RebootProcess, KillKind::KillInstantly] {
            let world = World::new(seed, "triple");
            let before = world.run(read_version(&world.database));
            let (epoch, began) = (world.epoch(), world.kernel.now());
            let victim = world.playing(role)[0];
            // A coordinator is never killed for good.
            let is_coordinator =
                world.cluster.kill(&Target::Process(victim), kind) != [(victim, kind)];
            assert!(!is_coordinator || kind == KillKind::KillInstantly);
            world.await_generation_after(epoch);
            let after = world.run(read_version(&world.database));
            let passed = world.kernel.now().since(began) * VERSIONS_PER_SECOND;
            let jump = after - before;
            assert!(
                jump >= MAX_VERSIONS_IN_FLIGHT,
                "{role}, {kind:?}: from {before} to {after}"
            );
            // The clock continues meanwhile, and the earlier version may have been handed out some
            // time ago.
            assert!(
                (jump - MAX_VERSIONS_IN_FLIGHT) as f64 <= passed + 5.0 * VERSIONS_PER_SECOND,
                "{role}, {kind:?}: from {before} to {after}"
            );
            assert_eq!(world.read("first"), Some(key("1")), "{role}, {kind:?}");
        }
    }
}

#[test]
fn the_death_of_a_storage_server_begins_no_generation() {
    let world = World::new(1, "double");
    let epoch = world.epoch();
    let others: BTreeSet<ProcessId> = transaction_system(&world).into_iter().collect();
    let storages = world.playing("storage");
    let victim = storages.iter().find(|process| !others.contains(process));
    world.kill(
        *victim.expect("one has no other role"),
        KillKind::RebootProcess,
    );
    world.sleep(20.0);
    assert_eq!(world.epoch(), epoch);
    assert_eq!(world.read("first"), Some(key("1")));
}

/// The processes of the current generation.
fn transaction_system(world: &World) -> Vec<ProcessId> {
    let roles = world.cluster.roles();
    let roles = roles.iter().filter(|(role, _)| *role != "storage");
    roles.map(|(_, process)| *process).collect()
}

/// Keeps the logs' processes on the first four machines away, one after the other, until the logs
/// are elsewhere.
fn move_logs_away(world: &World) {
    for machine in [3, 0, 1, 2] {
        let name = format!("server {machine}.1");
        let servers = world.cluster.servers();
        let process = servers
            .iter()
            .find(|process| world.kernel.process(**process).name == name);
        let process = *process.expect("each machine has a process for logs");
        let epoch = world.epoch();
        let is_log = world.playing("tlog").contains(&process);
        world
            .kernel
            .reboot(process, KillKind::RebootProcess, PATIENCE);
        if is_log {
            world.await_generation_after(epoch);
        }
    }
}

/// Cuts the old generation off, together with the client and one of its logs: its proxies, its
/// sequencer and its resolver live on and can reach one another. The other side recovers without
/// them.
#[test]
fn a_generation_that_was_replaced_neither_commits_nor_gives_read_versions() {
    let mut tried = 0;
    for seed in 0..20 {
        let world = World::new(
            seed,
            "double logs=3 commit_proxies=1 grv_proxies=1 resolvers=1",
        );
        move_logs_away(&world);
        let info = world.client_info();
        let mut cut_off: BTreeSet<IpAddr> = ["sequencer", "commitproxy", "grvproxy", "resolver"]
            .iter()
            .flat_map(|role| world.playing(role))
            .map(|process| world.ip(process))
            .collect();
        cut_off.insert(world.ip(world.client));
        cut_off.insert(world.ip(world.playing("tlog")[0]));
        // The other side needs the coordinators, and as many logs as a recovery does.
        let coordinators = world.cluster.layout().coordinators.iter();
        let coordinators = coordinators.map(|index| world.cluster.servers()[*index]);
        let logs = world.playing("tlog").into_iter().skip(1);
        if coordinators
            .chain(logs)
            .any(|process| cut_off.contains(&world.ip(process)))
        {
            continue;
        }
        let others: BTreeSet<IpAddr> = world
            .kernel
            .processes()
            .into_iter()
            .map(|process| world.ip(process))
            .filter(|ip| !cut_off.contains(ip))
            .collect();
        tried += 1;
        let epoch = world.epoch();
        let each = |change: fn(&Kernel, IpAddr, IpAddr)| {
            for one in &cut_off {
                for other in &others {
                    change(&world.kernel, *one, *other);
                }
            }
        };
        each(Kernel::partition);
        world.await_generation_after(epoch);

        let commit = Commit {
            transaction: CommitTransaction {
                mutations: vec![Mutation {
                    kind: MutationKind::SetValue,
                    param1: key("ghost"),
                    param2: key("1"),
                }],
                write_conflict_ranges: vec![single("ghost")],
                ..CommitTransaction::default()
            },
            first_in_batch: false,
            idempotency_id: None,
        };
        let committed = info.commit_proxies[0].commit.request(world.client, commit);
        let question = GetReadVersion {
            transaction_count: 1,
            priority: TransactionPriority::Default,
            causal_read_risky: false,
            tags: Vec::new(),
        };
        let proxy = &info.grv_proxies[0].get_read_version;
        let version = proxy.request(world.client, question);
        let heal = async {
            world.kernel.sleep(20.0).await;
            each(Kernel::heal);
        };
        // Both may fail or never be answered, as long as they do not succeed.
        let committed = world.spawn({
            let kernel = world.kernel.clone();
            async move { kernel.timeout(60.0, committed).await }
        });
        let version = world.spawn({
            let kernel = world.kernel.clone();
            async move { kernel.timeout(60.0, version).await }
        });
        world.run(heal);
        let committed = world.run(committed);
        assert!(
            !matches!(committed, Some(Ok(Ok(CommitOutcome::Committed { .. })))),
            "seed {seed}: {committed:?}"
        );
        let version = world.run(version);
        assert!(
            !matches!(version, Some(Ok(Ok(_)))),
            "seed {seed}: {version:?}"
        );
        assert_eq!(world.read("ghost"), None, "seed {seed}");
        assert_eq!(world.read("first"), Some(key("1")), "seed {seed}");
    }
    assert!(tried >= 3, "only {tried} clusters could be cut in two");
}

#[test]
fn storage_servers_that_come_back_catch_up_from_the_logs() {
    for seed in 0..10 {
        let world = World::new(seed, "single");
        let epoch = world.epoch();
        let storages = world.playing("storage");
        let others = transaction_system(&world);
        assert!(storages.iter().all(|process| !others.contains(process)));
        for process in &storages {
            world.kill(*process, KillKind::RebootProcess);
        }
        // Logs are enough to commit.
        world.run(write(&world.database, "while away", "1"));
        let away = |process: &ProcessId| !world.kernel.is_alive(*process);
        assert!(storages.iter().all(away), "seed {seed}: too soon");
        // The read waits for the server that has the key, and the others come back, too.
        assert_eq!(world.read("while away"), Some(key("1")), "seed {seed}");
        world.run(async {
            while storages.iter().any(away) {
                world.kernel.sleep(0.1).await;
            }
        });
        assert_eq!(world.read("first"), Some(key("1")), "seed {seed}");
        assert_eq!(world.epoch(), epoch, "seed {seed}: a generation ended");
    }
}

#[test]
fn a_storage_server_that_was_replaced_while_it_was_away_ends_when_it_comes_back() {
    let world = World::new(11, "double");
    // As known to a client that does not look it up again. Without the coordinator no server is
    // replaced.
    let coordinator = world.cluster.servers()[world.cluster.layout().coordinators[0]];
    let mut replicas = world.storage_servers("first").into_iter();
    let old = replicas.find(|server| server.get_value.process() != coordinator);
    let old = old.expect("two replicas, one coordinator");
    let replaced = old.get_value.process();
    world
        .kernel
        .reboot(replaced, KillKind::RebootProcess, 200.0);
    // Its shards are copied, and the logs forget what it would need to catch up.
    for round in 0..20 {
        world.sleep(8.0);
        world.run(write(&world.database, "round", &round.to_string()));
    }
    assert!(!world.kernel.is_alive(replaced), "it came back too soon");
    let servers = world.storage_servers("first");
    assert!(servers.iter().all(|server| server.id != old.id));
    world.sleep(60.0);
    assert!(world.kernel.is_alive(replaced));
    let version = world.run(version(&world.database));
    let watch = WatchValue {
        key: key("first"),
        value: Some(key("1")),
        version,
        fate: None,
    };
    let answer = world.run(old.watch_value.request(world.client, watch));
    assert_eq!(answer, Err(Disconnected::Refused));
}

/// A server that is away long enough loses its shards and is removed. If it comes back before that
/// is done, a move may pick it, and what it is given must not be lost with it.
#[test]
fn a_server_that_is_about_to_be_removed_is_given_no_shard() {
    for seed in 0..12 {
        let world = World::new(seed, "single");
        let mut knobs = (*world.cluster.knobs()).clone();
        knobs.data_distribution_failure_reaction_time = 0.2;
        world.cluster.set_knobs(knobs);
        let names: Vec<String> = (b'a'..=b'z')
            .map(|letter| char::from(letter).into())
            .collect();
        for name in &names {
            world.run(write(&world.database, name, name));
        }
        let (cluster, letters) = (world.cluster.clone(), names.clone());
        let moving = world.spawn(async move {
            loop {
                for pair in letters.windows(2) {
                    let range = KeyRange {
                        begin: key(&pair[0]),
                        end: key(&pair[1]),
                    };
                    cluster.move_keys(range).await;
                }
            }
        });
        let coordinator = world.cluster.servers()[world.cluster.layout().coordinators[0]];
        for round in 0..10 {
            let holders = world.playing("storage");
            let holder = holders[round % holders.len()];
            if holder != coordinator && world.kernel.is_alive(holder) {
                world.kernel.reboot(holder, KillKind::RebootProcess, 0.6);
            }
            world.sleep(3.0);
        }
        drop(moving);
        for name in &names {
            let value = world.run(read(&world.database, name));
            assert_eq!(value, Some(key(name)), "seed {seed}");
        }
    }
}

#[test]
fn a_watch_whose_version_is_late_is_asked_for_elsewhere() {
    let world = World::with_replica_apart("late");
    world.between_replicas_and_logs("late", Kernel::partition);
    world.run(write(&world.database, "late", "1"));
    let watch = WatchValue {
        key: key("late"),
        value: Some(key("1")),
        version: world.run(version(&world.database)),
        fate: None,
    };
    let server = &world.storage_servers("late")[0];
    let asked = world.kernel.now();
    let answer = world.run(server.watch_value.request(world.client, watch));
    assert_eq!(
        answer,
        Ok(Err(StorageError::Code(Error::FUTURE_VERSION))),
        "as any read"
    );
    let waited = world.kernel.now().since(asked);
    assert!((1.0..2.0).contains(&waited), "{waited} s");
}

#[test]
fn a_server_holds_a_watch_for_half_a_minute_and_the_client_asks_again() {
    let world = World::new(12, "double");
    let watch = WatchValue {
        key: key("first"),
        value: Some(key("1")),
        version: world.run(version(&world.database)),
        fate: None,
    };
    let server = &world.storage_servers("first")[0];
    let asked = world.kernel.now();
    let answer = world.run(server.watch_value.request(world.client, watch));
    assert_eq!(answer, Ok(Err(StorageError::Code(Error::TIMED_OUT))));
    let waited = world.kernel.now().since(asked);
    assert!((30.0..31.0).contains(&waited), "{waited} s");

    let transaction = world.database.create_transaction();
    let watch = transaction.watch(key("first"));
    world.run(transaction.commit()).expect("a watch alone");
    let watch = world.spawn(watch);
    world.sleep(100.0);
    assert!(!watch.is_finished(), "nothing has changed");
    world.run(write(&world.database, "first", "2"));
    assert_eq!(world.run(watch), Ok(()));
}

#[test]
fn a_replica_that_lags_makes_reads_wait_and_then_fail_with_1009() {
    let world = World::with_replica_apart("late");
    world.between_replicas_and_logs("late", Kernel::partition);
    world.run(write(&world.database, "late", "1"));
    let transaction = world.run(begun(&world.database));
    let asked = world.kernel.now();
    let answer = world.run(transaction.get(key("late"), false));
    assert_eq!(answer, Err(Error::FUTURE_VERSION));
    let waited = world.kernel.now().since(asked);
    assert!((1.0..2.0).contains(&waited), "{waited} s");
    world.between_replicas_and_logs("late", Kernel::heal);
    assert_eq!(world.read("late"), Some(key("1")));
}

#[test]
fn a_replica_that_stays_far_behind_makes_reads_fail_with_1037() {
    let world = World::with_replica_apart("late");
    world.between_replicas_and_logs("late", Kernel::partition);
    world.run(write(&world.database, "late", "1"));
    let mut errors = Vec::new();
    for _ in 0..15 {
        let transaction = world.run(begun(&world.database));
        let answer = world.run(transaction.get(key("late"), false));
        errors.push(answer.expect_err("the value is not there"));
        world.sleep(1.0);
    }
    // First it may be about to catch up, then it is far behind.
    let first_behind = errors
        .iter()
        .position(|error| *error == Error::PROCESS_BEHIND)
        .expect("it says so at last");
    let (before, after) = errors.split_at(first_behind);
    assert!(!before.is_empty() && before.iter().all(|error| *error == Error::FUTURE_VERSION));
    assert!(after.iter().all(|error| *error == Error::PROCESS_BEHIND));
    world.between_replicas_and_logs("late", Kernel::heal);
    assert_eq!(world.read("late"), Some(key("1")));
}

#[test]
fn reads_and_commits_from_before_a_recovery_are_too_old() {
    for seed in 0..20 {
        let world = World::new(seed, "double");
        let (reader, writer) = (
            world.run(begun(&world.database)),
            world.run(begun(&world.database)),
        );
        assert_eq!(
            world.run(writer.get(key("first"), false)),
            Ok(Some(key("1")))
        );
        let epoch = world.epoch();
        world.kill(world.playing("resolver")[0], KillKind::RebootProcess);
        world.await_generation_after(epoch);
        // Storage servers learn of the new generation with its first batch.
        world.run(write(&world.database, "other", "1"));
        // Servers behind a dead process learn of it a second later; five seconds have not passed by
        // then.
        world.sleep(2.0);
        let too_old = Err(Error::TRANSACTION_TOO_OLD);
        let read = world.run(reader.get(key("first"), false));
        assert_eq!(read.map(drop), too_old, "seed {seed}");
        let version = world.run(writer.get_read_version()).expect("it has one");
        let overwrite = |transaction: &Transaction| {
            transaction.set(key("first"), key("2"));
            world.run(transaction.commit())
        };
        let mut commit = overwrite(&writer);
        if commit == Err(Error::COMMIT_UNKNOWN_RESULT) {
            // Its proxy was gone as well: the next one reports the result.
            let again = world.database.create_transaction();
            again.set_read_version(version);
            again.add_conflict_range(single("first"), ConflictRangeKind::Read);
            commit = overwrite(&again);
        }
        assert_eq!(commit, too_old, "seed {seed}");
        assert_eq!(world.read("first"), Some(key("1")), "seed {seed}");
    }
}

/// Kills the proxies at every moment of a commit.
#[test]
fn a_commit_whose_reply_is_lost_is_unknown_and_settled_and_both_fates_occur() {
    const MOMENTS: u32 = 60;
    let start = || {
        let world = World::new(6, "double");
        let database = world.database.clone();
        let commit = world.spawn(async move {
            let transaction = database.create_transaction();
            transaction.set(key("doubtful"), key("1"));
            let result = transaction.commit().await;
            let ended = database.process().now();
            // The very next thing that any client asks.
            (result, ended, read(&database, "doubtful").await.is_some())
        });
        (world, commit)
    };
    let (world, undisturbed) = start();
    let began = world.kernel.now();
    let (result, ended, _) = world.run(undisturbed);
    assert_eq!(result, Ok(()));
    let lasts = ended.since(began);
    let (mut happened, mut vanished) = (0, 0);
    for moment in 0..MOMENTS {
        let (world, commit) = start();
        let milliseconds = lasts * 1e3 * f64::from(moment) / f64::from(MOMENTS);
        world.sleep(milliseconds / 1e3);
        for proxy in world.playing("commitproxy") {
            let target = Target::Process(proxy);
            world.cluster.kill(&target, KillKind::RebootProcess);
        }
        let (result, _, seen) = world.run(commit);
        match result {
            Ok(()) => assert!(seen, "{milliseconds:.1} ms: acknowledged and lost"),
            Err(Error::COMMIT_UNKNOWN_RESULT) if seen => happened += 1,
            Err(Error::COMMIT_UNKNOWN_RESULT) => vanished += 1,
            Err(error) => assert!(!seen, "{milliseconds:.1} ms: {error}, and yet it is there"),
        }
        world.sleep(20.0);
        let later = world.read("doubtful").is_some();
        assert_eq!(
            seen, later,
            "{milliseconds:.1} ms: a settled fate has changed"
        );
    }
    assert!(happened > 0, "no commit happened that was unknown");
    assert!(vanished > 0, "every commit happened that was unknown");
}

#[test]
fn an_outage_is_a_wait_and_not_an_error() {
    let world = World::new(7, "double");
    // One in a hundred read versions is refused while faults are on; a reboot of a process needs
    // none.
    world.cluster.set_faults_enabled(false);
    for process in world.cluster.servers() {
        world.kill(*process, KillKind::RebootProcess);
    }
    let asked = world.kernel.now();
    let transaction = world.database.create_transaction();
    let value = world.run(transaction.get(key("first"), false));
    assert_eq!(value, Ok(Some(key("1"))));
    assert!(world.kernel.now().since(asked) > 4.0, "there was no outage");
    transaction.set(key("first"), key("2"));
    assert_eq!(world.run(transaction.commit()), Ok(()));
}

#[test]
fn a_cluster_that_is_cut_off_from_its_client_is_waited_for() {
    let world = World::new(8, "double");
    let client = world.ip(world.client);
    let cut = |change: fn(&Kernel, IpAddr, IpAddr)| {
        for process in world.cluster.servers() {
            change(&world.kernel, client, world.ip(*process));
        }
    };
    cut(Kernel::partition);
    let database = world.database.clone();
    let reading = world.spawn(async move { read(&database, "first").await });
    world.sleep(60.0);
    assert!(!reading.is_finished());
    cut(Kernel::heal);
    assert_eq!(world.run(reading), Some(key("1")));
}

#[test]
fn kills_that_would_lose_data_become_reboots() {
    for kind in [KillKind::KillInstantly, KillKind::RebootAndDelete] {
        let world = World::new(9, "single");
        world.sleep(30.0);
        for zone in world.cluster.zones() {
            let killed = world.cluster.kill(&Target::Zone(zone), kind);
            assert!(!killed.is_empty());
            for (_, what) in killed {
                assert_eq!(what, KillKind::Reboot, "there was one replica only");
            }
        }
        assert_eq!(world.read("first"), Some(key("1")));
    }
}

#[test]
fn as_many_machines_can_be_lost_as_leave_a_replica_and_what_they_held_is_copied() {
    for seed in 0..3 {
        let world = World::new(seed, "triple");
        let mut lost = 0;
        // A kill is requested for every zone, some seconds apart, so that there is time to copy:
        // none of them may take data with it.
        for zone in world.cluster.zones() {
            world.sleep(80.0);
            let killed = world
                .cluster
                .kill(&Target::Zone(zone), KillKind::KillInstantly);
            lost += u32::from(killed.iter().any(|(_, kind)| !kind.reboots()));
        }
        // Eight zones, three replicas, and one more place than that: no more than four can go.
        assert!(
            (2..=4).contains(&lost),
            "seed {seed}: {lost} zones were lost"
        );
        assert_eq!(world.read("first"), Some(key("1")), "seed {seed}");
    }
}

#[test]
fn a_majority_of_the_coordinators_is_never_lost() {
    let world = World::new(10, "triple");
    world.sleep(30.0);
    let coordinator = world.cluster.layout().coordinators[0];
    let coordinator = world.cluster.servers()[coordinator];
    let zone = world.kernel.process(coordinator).zone.clone();
    for kind in [KillKind::KillInstantly, KillKind::RebootAndDelete] {
        let killed = world.cluster.kill(&Target::Zone(zone.clone()), kind);
        assert!(!killed.is_empty());
        assert!(killed.iter().all(|(_, what)| *what == KillKind::Reboot));
        world.sleep(30.0);
    }
    assert_eq!(world.read("first"), Some(key("1")));
}

/// Runs ChangeConfig; returns the addresses of the coordinators before and after.
fn change_coordinators(world: &World, wish: &str) -> [Vec<String>; 2] {
    let coordinators = || {
        let transaction = world.database.create_transaction();
        transaction.set_option(ACCESS_SYSTEM_KEYS, None);
        let noted = world.run(transaction.get(Bytes::from_static(b"\xff/coordinators"), false));
        let noted = noted.expect("it can be read").expect("it is noted");
        let text = String::from_utf8(noted.to_vec()).expect("a text");
        let (_, addresses) = text.split_once('@').expect("a connection string");
        let mut addresses: Vec<String> = addresses.split(',').map(str::to_owned).collect();
        addresses.sort();
        addresses
    };
    let before = coordinators();
    let changing = start_together(
        &Saboteur::new(&world.cluster),
        &world.database,
        &["ChangeConfig"],
        &[("coordinators", wish)],
    );
    world.run(changing);
    [before, coordinators()]
}
const ACCESS_SYSTEM_KEYS: i32 = 301;

#[test]
fn coordinators_that_are_too_few_are_replaced_and_the_cluster_outlives_the_old_ones() {
    for seed in 0..4 {
        let world = World::new(seed, "triple");
        let generation = world.cluster.epoch();
        let [before, after] = change_coordinators(&world, "auto");
        assert_eq!((before.len(), after.len()), (1, 5), "seed {seed}");
        assert!(world.cluster.epoch() > generation, "seed {seed}");
        let transaction = world.database.create_transaction();
        let described = Bytes::from_static(b"\xff\xff/connection_string");
        let described = world.run(transaction.get(described, false));
        let described = described.expect("it is no secret").expect("there is one");
        let described = String::from_utf8_lossy(&described);
        for address in &after {
            assert!(described.contains(address), "seed {seed}: {described}");
        }
        // Nobody remembers anything but what is on disk, and the first coordinator is away longest.
        for zone in world.cluster.zones() {
            world.cluster.kill(&Target::Zone(zone), KillKind::Reboot);
        }
        let first = world.cluster.servers()[world.cluster.layout().coordinators[0]];
        world.kernel.reboot(first, KillKind::RebootProcess, 100.0);
        assert_eq!(world.read("first"), Some(key("1")), "seed {seed}");
        assert!(world.kernel.now().as_secs() < 100.0, "seed {seed}");
        world.sleep(150.0);
        let [again, still] = change_coordinators(&world, "auto");
        assert_eq!(
            (&again, &still),
            (&after, &after),
            "seed {seed}: they will do"
        );
    }
}

#[test]
fn coordinators_that_will_do_stay_and_no_generation_ends() {
    let world = World::new(1, "single");
    let generation = world.cluster.epoch();
    let [before, after] = change_coordinators(&world, "auto");
    assert_eq!(before, after);
    assert_eq!(world.cluster.epoch(), generation);
}

#[test]
fn coordinators_can_be_named_and_those_that_do_not_exist_cannot_be_had() {
    let world = World::new(1, "single");
    let named = [2, 7, 12].map(|index| {
        let server = world.cluster.servers()[index];
        world.kernel.process(server).address.to_string()
    });
    let [_, after] = change_coordinators(&world, &named.join(","));
    assert_eq!(after, named);
    let generation = world.cluster.epoch();
    for nobody in ["9.9.9.9:1", "nonsense", ","] {
        let [_, after] = change_coordinators(&world, nobody);
        assert_eq!(after, named, "{nobody}");
    }
    assert_eq!(world.cluster.epoch(), generation);

    // Whoever writes the row by hand gets a generation of it, and nothing else.
    let transaction = world.database.create_transaction();
    transaction.set_option(ACCESS_SYSTEM_KEYS, None);
    transaction.set(Bytes::from_static(b"\xff/coordinators"), key("nonsense"));
    let committed = world.run(transaction.commit());
    assert_eq!(committed, Err(Error::COMMIT_UNKNOWN_RESULT));
    assert_eq!(world.read("first"), Some(key("1")));
    assert!(world.cluster.epoch() > generation);
    let [unchanged, _] = change_coordinators(&world, "nonsense");
    assert_eq!(unchanged, named);
}
