//! Two regions: one has all roles, and when it is gone the other takes over without losing
//! anything.

use bytes::Bytes;
use shaketable_cluster::client::Database;
use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::kill::Target;
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{Address, Kernel, KillKind, ProcessSpec};

async fn write(database: &Database, key: &'static str, value: &'static str) {
    let transaction = database.create_transaction();
    loop {
        transaction.set(Bytes::from(key), Bytes::from(value));
        match transaction.commit().await {
            Ok(()) => return,
            Err(error) => transaction.on_error(error).await.expect("retryable"),
        }
    }
}

async fn read(database: &Database, key: &'static str) -> Option<Bytes> {
    let transaction = database.create_transaction();
    loop {
        match transaction.get(Bytes::from(key), false).await {
            Ok(value) => return value,
            Err(error) => transaction.on_error(error).await.expect("retryable"),
        }
    }
}

#[test]
fn the_other_region_takes_over_when_one_is_gone() {
    for seed in 0..10 {
        let kernel = Kernel::simulation(seed);
        let options = LayoutOptions {
            generate_fearless: Some(true),
            ..LayoutOptions::default()
        };
        let mut config = ClusterConfig::simulation(&kernel, &options, false).expect("a layout");
        // Long enough to see that the takeover does not wait for the return.
        (config.knobs.min_reboot_time, config.knobs.max_reboot_time) = (300.0, 400.0);
        let regions = config.layout.regions.clone();
        // A lost majority of coordinators would stop any cluster.
        let home = |index: &usize| config.layout.processes[*index].datacenter == regions[0];
        let away = (0..config.layout.processes.len()).find(|index| !home(index));
        config.layout.coordinators = vec![away.expect("there are other datacenters")];
        let cluster = Cluster::start(&kernel, config);
        let process = kernel.add_process(ProcessSpec {
            name: "client".into(),
            address: Address::v4(3, 4, 3, 1, 1),
            ..ProcessSpec::default()
        });
        let database = cluster.open_database(process, 740);
        let datacenter_of = |role: &str| {
            let roles = cluster.roles();
            let found = roles.iter().find(|(name, _)| *name == role);
            let (_, process) = found.unwrap_or_else(|| panic!("nobody is {role}"));
            kernel.process(*process).datacenter.clone()
        };
        let all = async {
            write(&database, "before", "1").await;
            assert_eq!(datacenter_of("sequencer"), regions[0], "seed {seed}");
            cluster.set_faults_enabled(true);
            cluster.kill(&Target::Datacenter(regions[0].clone()), KillKind::Reboot);
            write(&database, "after", "2").await;
            assert_eq!(datacenter_of("sequencer"), regions[1], "seed {seed}");
            assert_eq!(read(&database, "before").await, Some(Bytes::from("1")));
            assert_eq!(read(&database, "after").await, Some(Bytes::from("2")));
        };
        let in_time = kernel.block_on(kernel.timeout(60.0, all));
        let layout = cluster.layout();
        assert!(
            in_time.expect("no deadlock").is_some(),
            "seed {seed} ({layout}): nobody takes over"
        );
        kernel.shutdown();
    }
}
