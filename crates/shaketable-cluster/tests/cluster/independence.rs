//! Each fault draws from its own stream: leaving one out, or adding one, leaves the others exactly
//! as they were. That is what makes a failure shrinkable.

use shaketable_cluster::cluster::{Cluster, ClusterConfig};
use shaketable_cluster::faults::start_together;
use shaketable_cluster::saboteur::Saboteur;
use shaketable_cluster::server::layout::LayoutOptions;
use shaketable_kernel::{Address, Event, Kernel, KillKind, ProcessId, ProcessSpec, Recorder, Time};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

/// What faults did, and when.
#[derive(Default)]
struct Deeds {
    clogs: RefCell<Vec<(Time, IpAddr, IpAddr, Time)>>,
    kills: RefCell<Vec<(Time, ProcessId, KillKind)>>,
}

impl Recorder for Deeds {
    fn record(&self, time: Time, event: &Event) {
        match *event {
            Event::PairClogged { from, to, until } => {
                self.clogs.borrow_mut().push((time, from, to, until));
            }
            Event::ProcessKilled { process, kind } => {
                self.kills.borrow_mut().push((time, process, kind));
            }
            _ => {}
        }
    }
}

/// Runs fault workloads for half a minute.
fn deeds(seed: u64, names: &[&str]) -> Rc<Deeds> {
    let kernel = Kernel::simulation(seed);
    let config = ClusterConfig::simulation(&kernel, &LayoutOptions::default(), true);
    let cluster = Cluster::start(&kernel, config.expect("a layout"));
    let tester = kernel.add_process(ProcessSpec {
        name: "tester".into(),
        address: Address::v4(3, 4, 3, 99, 1),
        ..ProcessSpec::default()
    });
    kernel
        .run_until(Time::from_secs(5.0))
        .expect("nothing spins");
    cluster.set_faults_enabled(true);
    let deeds = Rc::new(Deeds::default());
    kernel.set_recorder(Some(deeds.clone()));
    let options = [
        ("testDuration", "30"),
        ("machinesToKill", "6"),
        ("machinesToLeave", "2"),
        ("killDc", "false"),
        ("reboot", "true"),
    ];
    let (saboteur, database) = (Saboteur::new(&cluster), cluster.open_database(tester, 740));
    let task = start_together(&saboteur, &database, names, &options);
    kernel
        .run_until(Time::from_secs(40.0))
        .expect("nothing spins");
    drop(task);
    kernel.set_recorder(None);
    kernel.shutdown();
    deeds
}

#[test]
fn leaving_one_fault_out_leaves_the_others_as_they_were() {
    for seed in 0..5 {
        let both = deeds(seed, &["Attrition", "RandomClogging"]);
        let clogging = deeds(seed, &["RandomClogging"]);
        let attrition = deeds(seed, &["Attrition"]);
        assert!(!clogging.clogs.borrow().is_empty() && !attrition.kills.borrow().is_empty());
        assert_eq!(
            *both.clogs.borrow(),
            *clogging.clogs.borrow(),
            "seed {seed}"
        );
        assert_eq!(
            *both.kills.borrow(),
            *attrition.kills.borrow(),
            "seed {seed}"
        );
        assert!(clogging.kills.borrow().is_empty() && attrition.clogs.borrow().is_empty());
    }
}
