//! Processes die and come back; disks stay.

use crate::{process, two};
use shaketable_kernel::{
    Address, Event, Kernel, KillKind, LastEvents, Priority, ProcessSpec, Time,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

#[test]
fn a_dead_process_loses_its_tasks_at_once_and_others_keep_theirs() {
    let (kernel, a, b) = two(1);
    let ticks = Rc::new(RefCell::new(Vec::new()));
    for process in [a, b] {
        let (kernel2, ticks) = (kernel.clone(), ticks.clone());
        kernel
            .spawn(process, Priority::DefaultDelay, async move {
                loop {
                    kernel2.sleep(1.0).await;
                    ticks.borrow_mut().push(process);
                }
            })
            .detach();
    }
    kernel.run_until(Time::from_secs(2.5)).unwrap();
    assert!(kernel.kill(a, KillKind::KillInstantly));
    assert_eq!(kernel.task_count(), 1);
    kernel.run_until(Time::from_secs(4.5)).unwrap();
    assert_eq!(*ticks.borrow(), [a, b, a, b, b, b]);
    assert!(!kernel.is_alive(a) && kernel.is_alive(b));
}

#[test]
fn a_task_that_kills_its_own_process_ends_at_its_next_await() {
    let (kernel, a, _) = two(1);
    let reached = Rc::new(Cell::new(0));
    let (kernel2, reached2) = (kernel.clone(), reached.clone());
    let task = kernel.spawn(a, Priority::DefaultDelay, async move {
        kernel2.kill(a, KillKind::Reboot);
        reached2.set(1);
        kernel2
            .spawn(a, Priority::DefaultDelay, async {
                panic!("the dead run nothing")
            })
            .detach();
        kernel2.yield_now().await;
        reached2.set(2);
    });
    assert_eq!(kernel.block_on(task.join()), Ok(None));
    assert_eq!((reached.get(), kernel.task_count()), (1, 0));
}

#[test]
fn one_who_waits_for_a_task_can_be_told_that_its_process_died() {
    let (kernel, a, _) = two(1);
    let alive = kernel.spawn(a, Priority::DefaultDelay, async { 5 });
    let stuck = kernel.spawn(a, Priority::DefaultDelay, std::future::pending::<()>());
    assert_eq!(kernel.block_on(alive.join()), Ok(Some(5)));
    assert!(!stuck.is_finished());
    kernel.kill(a, KillKind::Reboot);
    assert!(stuck.is_finished());
    assert_eq!(kernel.block_on(stuck.join()), Ok(None));
    let late = kernel.spawn(a, Priority::DefaultDelay, async { 5 });
    assert_eq!(kernel.block_on(late.join()), Ok(None));
}

/// Counts its boots on its own disk.
fn counting(kernel: &Kernel, n: u8) -> shaketable_kernel::ProcessId {
    let id = process(kernel, n);
    kernel.set_boot(
        id,
        Rc::new(|kernel, process| {
            let boots = kernel.disk(process).open("boots", || Cell::new(0));
            boots.set(boots.get() + 1);
        }),
    );
    kernel.boot(id);
    id
}

fn boots(kernel: &Kernel, process: shaketable_kernel::ProcessId) -> Option<i32> {
    kernel
        .disk(process)
        .get::<Cell<i32>>("boots")
        .map(|boots| boots.get())
}

#[test]
fn a_rebooted_process_starts_anew_with_its_disk() {
    let kernel = Kernel::simulation(1);
    let a = counting(&kernel, 1);
    assert_eq!((boots(&kernel, a), kernel.incarnation(a)), (Some(1), 0));
    kernel.reboot(a, KillKind::Reboot, 4.5);
    kernel.run_until(Time::from_secs(4.4)).unwrap();
    assert!(!kernel.is_alive(a));
    kernel.run_until(Time::from_secs(4.6)).unwrap();
    assert!(kernel.is_alive(a));
    assert_eq!((boots(&kernel, a), kernel.incarnation(a)), (Some(2), 1));
}

#[test]
fn a_deleted_process_starts_anew_with_an_empty_disk() {
    let kernel = Kernel::simulation(1);
    for kind in [KillKind::RebootAndDelete, KillKind::RebootProcessAndDelete] {
        let a = counting(&kernel, 1);
        kernel.kill(a, kind);
        assert_eq!(boots(&kernel, a), None);
        assert!(kernel.boot(a));
        assert_eq!(boots(&kernel, a), Some(1));
    }
}

#[test]
fn a_process_killed_for_good_does_not_come_back() {
    let kernel = Kernel::simulation(1);
    for kind in [KillKind::KillInstantly, KillKind::InjectFaults] {
        let a = counting(&kernel, 1);
        kernel.reboot(a, kind, 1.0);
        kernel.run_until(kernel.now() + 10.0).unwrap();
        assert!(!kernel.is_alive(a) && !kernel.boot(a));
        assert_eq!(boots(&kernel, a), Some(1));
    }
    // Also if the final blow falls while it is down.
    let a = counting(&kernel, 1);
    kernel.reboot(a, KillKind::Reboot, 1.0);
    assert!(
        !kernel.kill(a, KillKind::KillInstantly),
        "it was dead already"
    );
    kernel.run_until(kernel.now() + 10.0).unwrap();
    assert!(!kernel.is_alive(a));
}

#[test]
fn a_running_process_is_not_booted_again() {
    let kernel = Kernel::simulation(1);
    let a = counting(&kernel, 1);
    assert!(!kernel.boot(a));
    assert_eq!(boots(&kernel, a), Some(1));
}

#[test]
fn a_disk_keeps_typed_values_by_name() {
    let (kernel, a, b) = two(1);
    let disk = kernel.disk(a);
    disk.put("x", 5_u32);
    assert_eq!(disk.get::<u32>("x").as_deref(), Some(&5));
    assert_eq!(*disk.open("x", || 6_u32), 5);
    disk.open("y", String::new);
    assert_eq!(kernel.disk(a).names(), ["x", "y"]);
    assert!(disk.remove("x") && !disk.remove("x"));
    assert!(kernel.disk(b).names().is_empty());
}

#[test]
#[should_panic(expected = "something else than a u64 under \"x\"")]
fn a_disk_does_not_pass_one_type_for_another() {
    let (kernel, a, _) = two(1);
    kernel.disk(a).put("x", 5_u32);
    kernel.disk(a).get::<u64>("x");
}

#[test]
fn a_disk_takes_its_time_to_sync() {
    let (kernel, a, _) = two(1);
    let disk = kernel.disk(a);
    for _ in 0..100 {
        let before = kernel.now();
        kernel.block_on(disk.sync()).unwrap();
        assert!((0.005..0.015).contains(&(kernel.now() - before)));
    }
}

#[test]
fn a_process_knows_where_it_stands() {
    let kernel = Kernel::simulation(1);
    let spec = ProcessSpec {
        name: "storage 3".into(),
        address: Address::v4(2, 0, 1, 3, 4501),
        machine: "m".into(),
        zone: "z".into(),
        datacenter: "d".into(),
        data_hall: "h".into(),
        class: "storage".into(),
    };
    let id = kernel.add_process(spec.clone());
    assert_eq!(*kernel.process(id), spec);
    assert_eq!(spec.address.to_string(), "2.0.1.3:4501");
    let v6 = Address {
        ip: "abcd::1".parse().unwrap(),
        port: 1,
    };
    assert_eq!(v6.to_string(), "[abcd::1]:1");
    assert_eq!((kernel.processes(), id.index()), (vec![id], 0));
}

#[test]
fn deaths_and_boots_are_recorded() {
    let kernel = Kernel::simulation(1);
    let last = LastEvents::new(10);
    kernel.set_recorder(Some(last.clone()));
    let a = counting(&kernel, 1);
    kernel.reboot(a, KillKind::Reboot, 1.0);
    kernel.run_until(Time::from_secs(2.0)).unwrap();
    let expected = [
        (
            Time::ZERO,
            Event::ProcessBooted {
                process: a,
                incarnation: 0,
            },
        ),
        (
            Time::ZERO,
            Event::ProcessKilled {
                process: a,
                kind: KillKind::Reboot,
            },
        ),
        (
            Time::from_secs(1.0),
            Event::ProcessBooted {
                process: a,
                incarnation: 1,
            },
        ),
    ];
    assert_eq!(last.events(), expected);
}

#[test]
fn after_the_shutdown_nothing_is_held_by_boot_functions_and_disks() {
    let kernel = Kernel::simulation(1);
    let process = kernel.add_process(ProcessSpec::default());
    let held = Rc::new(());
    let captured = (kernel.clone(), held.clone());
    kernel.set_boot(
        process,
        Rc::new(move |_: &Kernel, _| {
            let _ = &captured;
        }),
    );
    let on_disk = (kernel.clone(), held.clone());
    kernel.disk(process).open("all", || on_disk);
    assert_eq!(Rc::strong_count(&held), 3);
    kernel.shutdown();
    assert_eq!(Rc::strong_count(&held), 1);
}
