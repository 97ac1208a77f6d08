//! One seed, one order of events.

use crate::{Echo, ip, process};
use shaketable_kernel::{
    ClogMode, Endpoint, Event, Fingerprint, Kernel, KillKind, Priority, ProcessId, Time,
};
use std::cell::RefCell;
use std::rc::Rc;

/// Where the processes of the chaos find one another.
type Directory = Rc<RefCell<Vec<Option<Endpoint<Echo>>>>>;

/// What identifies a run: a hash of its events, their number, and the kernel's own fingerprint.
type Told = (u64, u64, u64);

/// Twenty processes that send each other requests, sleep, give up, die, come back and are clogged,
/// for a simulated minute.
fn chaos(seed: u64, with_clogs: bool) -> Told {
    let kernel = Kernel::simulation(seed);
    let fingerprint = Fingerprint::new();
    kernel.set_recorder(Some(fingerprint.clone()));
    kernel.set_connection_failures(true);
    let directory = Directory::default();
    let processes: Vec<ProcessId> = (0..20).map(|n| process(&kernel, n)).collect();
    directory.borrow_mut().resize(processes.len(), None);
    for &id in &processes {
        let directory = directory.clone();
        kernel.set_boot(id, Rc::new(move |kernel, id| boot(kernel, id, &directory)));
        kernel.boot(id);
    }
    let faults = kernel.stream("faults");
    let driver = kernel.clone();
    let chaos = async move {
        while driver.now() < Time::from_secs(60.0) {
            driver.sleep(faults.range(0.0, 1.0)).await;
            let (a, b) = (*faults.pick(&processes), *faults.pick(&processes));
            let seconds = 20.0 * (-10.0 * faults.uniform()).exp();
            match faults.below(4) {
                0 => driver.reboot(a, KillKind::Reboot, faults.range(0.1, 5.0)),
                1 if with_clogs => driver.clog_interface(ip(&driver, a), ClogMode::All, seconds),
                2 if with_clogs => driver.clog_pair(ip(&driver, a), ip(&driver, b), seconds),
                3 => driver.close_connection(a, b),
                _ => {}
            }
        }
    };
    kernel.block_on(chaos).unwrap();
    let told = (
        fingerprint.value(),
        fingerprint.events(),
        kernel.fingerprint(),
    );
    kernel.shutdown();
    told
}

fn boot(kernel: &Kernel, id: ProcessId, directory: &Directory) {
    let (endpoint, mut requests) = kernel.listen::<Echo>(id);
    directory.borrow_mut()[id.index()] = Some(endpoint);
    let (server, work) = (kernel.clone(), kernel.stream("work"));
    kernel
        .spawn(id, Priority::DefaultEndpoint, async move {
            loop {
                let (Echo(n), reply) = requests.recv().await;
                server.sleep(work.range(0.0, 0.01)).await;
                if !work.chance(0.01) {
                    reply.send(n + 1);
                }
            }
        })
        .detach();
    let (client, work, directory) = (kernel.clone(), kernel.stream("work"), directory.clone());
    kernel
        .spawn(id, Priority::DefaultDelay, async move {
            for n in 0.. {
                let to = work.pick(&directory.borrow()).clone();
                let Some(to) = to else { continue };
                let result = client.timeout(3.0, to.request(id, Echo(n))).await;
                client.record(|| Event::User {
                    name: "Answer".into(),
                    details: vec![("Result".into(), format!("{result:?}"))],
                });
                client.sleep(work.range(0.0, 0.1)).await;
            }
        })
        .detach();
}

#[test]
fn a_seed_gives_the_same_events_every_time_and_another_seed_others() {
    let mut all: Vec<Told> = Vec::new();
    for seed in 0..5 {
        let told = chaos(seed, true);
        assert_eq!(chaos(seed, true), told, "seed {seed}");
        assert!(
            all.iter()
                .all(|other| told.0 != other.0 && told.2 != other.2),
            "seed {seed} is like another"
        );
        all.push(told);
    }
    let events: u64 = all.iter().map(|told| told.1).sum();
    assert!(events > 5 * 20_000, "too quiet a chaos: {events} events");
}

#[test]
fn a_seed_gives_the_same_events_in_another_thread_beside_other_universes_and_with_another_heap() {
    let here = chaos(3, true);
    let threads: Vec<_> = (0..3u64)
        .map(|n| {
            let run = move || {
                // Move addresses around: nothing may depend on them.
                let ballast: Vec<Box<[u8]>> = (0..n * 1000)
                    .map(|size| vec![0; size as usize % 500].into())
                    .collect();
                let scattered: Vec<_> = ballast.into_iter().step_by(3).collect();
                let told = chaos(3, true);
                drop(scattered);
                told
            };
            std::thread::Builder::new()
                .stack_size(1 << (20 + n))
                .spawn(run)
                .unwrap()
        })
        .collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), here);
    }
}

#[test]
fn a_seed_gives_the_same_events_in_another_process_with_another_environment() {
    const CHILD: &str = "SHAKETABLE_TEST_CHILD";
    let told = format!("told {:?}", chaos(4, true));
    if std::env::var_os(CHILD).is_some() {
        println!("{told}");
        return;
    }
    for ballast in [0, 5000] {
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture"])
            .arg("determinism::a_seed_gives_the_same_events_in_another_process_with_another_environment")
            .env_clear()
            .env(CHILD, "x".repeat(ballast))
            .env("TZ", "Asia/Kathmandu")
            .current_dir("/")
            .output()
            .unwrap();
        let output = String::from_utf8(output.stdout).unwrap();
        assert!(output.contains(&told), "expected {told}, found {output}");
    }
}

#[test]
fn recording_changes_nothing() {
    let run = |record: bool| {
        let kernel = Kernel::simulation(5);
        if record {
            kernel.set_recorder(Some(Fingerprint::new()));
        }
        let directory = Directory::default();
        for n in 0..5 {
            let id = process(&kernel, n);
            directory.borrow_mut().push(None);
            boot(&kernel, id, &directory);
        }
        kernel.run_until(Time::from_secs(5.0)).unwrap();
        kernel.fingerprint()
    };
    assert_eq!(run(true), run(false));
}

#[test]
fn a_stream_is_not_disturbed_by_what_others_draw() {
    let draws = |disturb: bool| {
        let kernel = Kernel::simulation(9);
        let stream = kernel.stream("faults");
        (0..100)
            .map(|_| {
                if disturb {
                    kernel.stream("network").next_u64();
                    kernel.stream("something new").shuffle(&mut [1, 2, 3]);
                }
                stream.next_u64()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(draws(true), draws(false));
}

#[test]
fn clogs_draw_nothing_from_the_streams_of_latency_and_breaking() {
    let next_draws = |clog: bool| {
        let (kernel, a, b) = crate::two(9);
        let endpoint = crate::serve(&kernel, b);
        for n in 0..50 {
            if clog {
                kernel.clog_pair(ip(&kernel, a), ip(&kernel, b), 1.0);
            }
            kernel
                .block_on(endpoint.request(a, Echo(n)))
                .unwrap()
                .unwrap();
        }
        ["network", "connection failures"].map(|name| kernel.stream(name).next_u64())
    };
    assert_eq!(next_draws(true), next_draws(false));
}
