//! What breaks a cluster in the proof: more in a few simulated seconds than FoundationDB's tests do
//! in a minute.
//!
//! A seed draws which of the fault workloads run and with which options. In addition, processes,
//! machines and datacenters are killed in every way, and addresses are cut off from one another. In
//! half of the runs processes come back sooner than FoundationDB's would: the more time they are
//! up, the more often they can die.

use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::faults::start_together;
use shaketable_cluster::kill::Target;
use shaketable_cluster::saboteur::Saboteur;
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{Address, Kernel, KillKind, Priority, ProcessSpec, Stream, Task};

/// The fault workloads that may take part. RandomRangeLock does nothing unless buggify has drawn
/// its knob.
const FAULTS: &[&str] = &[
    "Attrition",
    "ChangeConfig",
    "ClogSingleConnection",
    "DiskFailureInjection",
    "RandomClogging",
    "RandomMoveKeys",
    "RandomRangeLock",
    "Rollback",
    "TargetedKill",
    "TriggerRecoveryLoop",
];

/// The roles that may be killed on purpose.
const ROLES: &[&str] = &[
    "master",
    "commitproxy",
    "grvproxy",
    "resolver",
    "tlog",
    "storage",
    "clustercontroller",
];

/// A cluster of any shape: a third of them as large as FoundationDB draws them.
pub fn cluster(kernel: &Kernel, random: &Stream) -> ClusterConfig {
    let (large, impatient, buggify) = (random.chance(0.33), random.chance(0.5), random.chance(0.5));
    let mut options = LayoutOptions::default();
    if !large {
        options.machine_count = Some(random.range(3, 7_usize));
        options.processes_per_machine = Some(random.range(1, 3_usize));
    }
    let mut config = ClusterConfig::simulation(kernel, &options, buggify).expect("a layout");
    if impatient {
        (config.knobs.min_reboot_time, config.knobs.max_reboot_time) = (0.1, 2.0);
    }
    // In a third of them a missing server is replaced at once, and comes back to find that it was.
    if random.chance(0.33) {
        config.knobs.data_distribution_failure_reaction_time = random.range(0.1, 3.0);
    }
    // In a quarter of them transactions are soon too old, and rest long before they try again.
    if random.chance(0.25) {
        config.knobs.max_write_transaction_life_versions = 1_000_000;
        config.knobs.future_version_retry_delay = random.uniform();
    }
    // A fifth of them are worse than production.
    if random.chance(0.2) {
        config = config.under_stress();
    }
    config
}

/// Makes trouble for about this many seconds; returns the tasks and the names of what they do. The
/// fault workloads end without being stopped, and undo what would last; the rest ends when the
/// tasks are dropped.
pub fn start(cluster: &Cluster, seconds: f64) -> (Vec<Task<()>>, Vec<&'static str>) {
    let kernel = cluster.kernel();
    let random = kernel.stream("trouble");
    let process = kernel.add_process(ProcessSpec {
        name: "tester".into(),
        address: Address::v4(3, 4, 3, 99, 1),
        ..ProcessSpec::default()
    });
    let mut names: Vec<&'static str> = FAULTS
        .iter()
        .copied()
        .filter(|_| random.chance(0.35))
        .collect();
    let text = |number: f64| format!("{number:.3}");
    let options = [
        ("testDuration", text(seconds)),
        ("scale", text(random.range(0.1, 1.0))),
        ("swizzle", random.below(2).to_string()),
        ("machinesToKill", random.range(1, 8_u64).to_string()),
        ("reboot", random.chance(0.5).to_string()),
        ("meanDelay", text(random.range(0.2, 3.0))),
        ("clogDuration", text(random.range(0.5, 4.0))),
        ("enableFailures", random.chance(0.3).to_string()),
        ("maxDelay", text(seconds)),
        ("killAt", text(random.uniform() * seconds)),
        ("machineToKill", (*random.pick(ROLES)).to_owned()),
        ("killWholeMachine", random.chance(0.3).to_string()),
        ("numRecoveries", random.range(1, 6_u64).to_string()),
        ("delayBetweenRecoveries", text(random.uniform())),
        ("configMode", draw_configuration(&random)),
        ("coordinators", "auto".to_owned()),
        ("maxDelayBeforeChange", text(seconds)),
        ("throttleDisk", "true".to_owned()),
        ("stallPeriod", text(seconds)),
        ("maxLockDuration", text(seconds)),
        ("maxStartDelay", text(seconds)),
    ];
    let options: Vec<(&str, &str)> = options
        .iter()
        .map(|(name, text)| (*name, text.as_str()))
        .collect();
    let (saboteur, database) = (Saboteur::new(cluster), cluster.open_database(process, 740));
    start_together(&saboteur, &database, &names, &options).detach();
    let mut tasks = Vec::new();
    if random.chance(0.6) {
        names.push("kills");
        let kills = kill_at_random(cluster.clone());
        tasks.push(kernel.spawn(process, Priority::DefaultEndpoint, kills));
    }
    if random.chance(0.3) {
        names.push("cuts");
        let cuts = cut_at_random(cluster.clone());
        tasks.push(kernel.spawn(process, Priority::DefaultEndpoint, cuts));
    }
    (tasks, names)
}

fn draw_configuration(random: &Stream) -> String {
    let replication = *random.pick(&["", "single", "double", "triple"]);
    format!(
        "{replication} logs={} resolvers={} commit_proxies={}",
        random.range(1, 5_u64),
        random.range(1, 4_u64),
        random.range(1, 4_u64)
    )
}

/// Kills something every now and then, in every way.
async fn kill_at_random(cluster: Cluster) {
    let random = cluster.kernel().stream("kill at random");
    let pause = random.range(0.3, 2.0);
    loop {
        cluster.kernel().sleep(random.uniform() * 2.0 * pause).await;
        let kinds = [
            KillKind::RebootProcess,
            KillKind::RebootProcess,
            KillKind::Reboot,
            KillKind::KillInstantly,
            KillKind::RebootAndDelete,
        ];
        let kind = *random.pick(&kinds);
        let process = *random.pick(cluster.servers());
        let spec = cluster.kernel().process(process);
        let target = match (kind, random.below(20)) {
            (KillKind::RebootProcess, _) => Target::Process(process),
            (_, 0) => Target::Datacenter(spec.datacenter.clone()),
            _ => Target::Zone(spec.zone.clone()),
        };
        cluster.kill(&target, kind);
    }
}

/// Cuts a server off, from one other address or from all, and reconnects it.
async fn cut_at_random(cluster: Cluster) {
    let kernel = cluster.kernel();
    let random = kernel.stream("cut at random");
    loop {
        kernel.sleep(random.uniform() * 2.0).await;
        let address = |process| kernel.process(process).address.ip;
        let one = address(*random.pick(cluster.servers()));
        let processes = kernel.processes();
        let others = if random.chance(0.5) {
            vec![address(*random.pick(&processes))]
        } else {
            processes.into_iter().map(address).collect()
        };
        for other in others.iter().filter(|other| **other != one) {
            kernel.partition(one, *other);
        }
        kernel.sleep(random.uniform() * 4.0).await;
        for other in others.iter().filter(|other| **other != one) {
            kernel.heal(one, *other);
        }
    }
}
