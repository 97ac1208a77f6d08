//! How fast the kernel is: `cargo bench -p shaketable-kernel`.
//!
//! Prints events per second for messages between two processes, and the cost of a timer with few and
//! with many others pending. A plain program: the numbers of interest are two rates and one ratio. An argument
//! chooses the lines that contain it; `valgrind --tool=callgrind` on the program counts instructions.

use shaketable_kernel::{
    Address, Inbox, Kernel, NetworkConfig, Priority, ProcessSpec, Request, Time,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

fn main() {
    ping_pong("simulated network", NetworkConfig::simulation(), 1_000_000);
    ping_pong("instant network", NetworkConfig::instant(), 1_000_000);
    inbox(3_000_000);
    round_trips(100_000);
    for pending in [1_000, 1_000_000] {
        background(pending, 1_000_000);
        calls(pending, 4_000_000);
        sleepers(pending, 4_000_000);
    }
    cancelled(4_000_000);
}

/// Whether the line was asked for.
fn chosen(what: &str) -> bool {
    let mut wanted = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .peekable();
    wanted.peek().is_none() || wanted.any(|wanted| what.contains(&wanted))
}

struct Ping(u64);
impl Request for Ping {
    type Reply = u64;
}

#[expect(
    clippy::disallowed_methods,
    reason = "a benchmark measures the machine"
)]
fn measure(what: &str, run: impl FnOnce() -> u64) {
    let start = Instant::now();
    let events = run();
    let nanos = start.elapsed().as_nanos() as f64 / events as f64;
    println!("{what:60} {:9.0} events/s {nanos:7.1} ns each", 1e9 / nanos);
}

fn two_processes(kernel: &Kernel) -> [shaketable_kernel::ProcessId; 2] {
    [1, 2].map(|n| {
        let address = Address::v4(10, 0, 0, n, 4500);
        kernel.add_process(ProcessSpec {
            address,
            ..ProcessSpec::default()
        })
    })
}

/// One request after another; each is two messages: sent, delivered, taken, twice.
fn ping_pong(name: &str, config: NetworkConfig, rounds: u64) {
    let what = &format!("ping-pong, {name}");
    if !chosen(what) {
        return;
    }
    let kernel = Kernel::simulation(1);
    kernel.set_budget(u64::MAX);
    kernel.set_network_config(config);
    let [client, server] = two_processes(&kernel);
    let (endpoint, mut requests) = kernel.listen::<Ping>(server);
    let pong = kernel.spawn(server, Priority::DefaultEndpoint, async move {
        loop {
            let (Ping(n), reply) = requests.recv().await;
            reply.send(n + 1);
        }
    });
    let ping = kernel.spawn(client, Priority::DefaultEndpoint, async move {
        let mut n = 0;
        while n < rounds {
            n = endpoint.request(client, Ping(n)).await.unwrap();
        }
    });
    measure(what, || {
        kernel.block_on(ping).unwrap();
        kernel.events()
    });
    drop(pong);
}

/// A task that sleeps again and again while others sleep far away.
fn background(pending: u64, rounds: u64) {
    let what = &format!("one sleeper among {pending} distant timers");
    if !chosen(what) {
        return;
    }
    let kernel = Kernel::simulation(1);
    let stream = kernel.stream("bench");
    for _ in 0..pending {
        kernel.call_at(Time::from_secs(stream.range(1e5, 2e5)), |_| ());
    }
    measure(what, || {
        let before = kernel.events();
        kernel
            .block_on(async {
                for _ in 0..rounds {
                    kernel.sleep(0.001).await;
                }
            })
            .unwrap();
        kernel.events() - before
    });
}

/// So many timers at all times, each of which sets the next.
fn calls(pending: u64, rounds: u64) {
    let what = &format!("{pending} timers, each sets the next");
    if !chosen(what) {
        return;
    }
    fn again(kernel: &Kernel, stream: shaketable_kernel::Stream) {
        let time = kernel.now() + stream.range(0.0, 1.0);
        kernel.call_at(time, move |kernel| again(kernel, stream));
    }
    let kernel = Kernel::simulation(1);
    for _ in 0..pending {
        again(&kernel, kernel.stream("bench"));
    }
    measure(what, || {
        while kernel.events() < rounds {
            kernel.advance();
        }
        kernel.events()
    });
    kernel.shutdown();
}

/// So many tasks that sleep at all times.
fn sleepers(pending: u64, rounds: u64) {
    let what = &format!("{pending} tasks that sleep");
    if !chosen(what) {
        return;
    }
    let kernel = Kernel::simulation(1);
    let [process, _] = two_processes(&kernel);
    for _ in 0..pending {
        let (kernel2, stream) = (kernel.clone(), kernel.stream("bench"));
        kernel
            .spawn(process, Priority::DefaultDelay, async move {
                loop {
                    kernel2.sleep(stream.range(0.0, 1.0)).await;
                }
            })
            .detach();
    }
    kernel.run_ready().unwrap();
    measure(what, || {
        let before = kernel.events();
        while kernel.events() - before < rounds {
            kernel.run_ready().unwrap();
            kernel.advance();
        }
        kernel.events() - before
    });
    kernel.shutdown();
}

/// Long time-outs around short waits.
fn cancelled(rounds: u64) {
    let what = "a long time-out, cancelled";
    if !chosen(what) {
        return;
    }
    let kernel = Kernel::simulation(1);
    measure(what, || {
        kernel
            .block_on(async {
                for _ in 0..rounds / 2 {
                    kernel.timeout(600.0, kernel.sleep(0.001)).await;
                }
            })
            .unwrap();
        kernel.events()
    });
}

/// Closures through the inbox, as a binding posts them.
fn inbox(rounds: u64) {
    let what = "closures posted and run, in groups of four";
    if !chosen(what) {
        return;
    }
    let kernel = Kernel::simulation(1);
    let inbox = kernel.inbox();
    measure(what, || {
        for n in 0..rounds / 4 {
            for m in 0..4 {
                inbox.post(move |kernel| {
                    std::hint::black_box((kernel.now(), n + m));
                });
            }
            kernel.run_ready().unwrap();
            kernel.run_until(kernel.now() + 1e-6).unwrap();
        }
        kernel.events()
    });
}

/// A thread that posts to a network thread and waits for the answer, again and again.
fn round_trips(rounds: u64) {
    let what = "round trips between two threads";
    if !chosen(what) {
        return;
    }
    let (inbox, stop) = (Inbox::new(), Arc::new(AtomicBool::new(false)));
    let (theirs, flag) = (inbox.clone(), stop.clone());
    let network = std::thread::Builder::new()
        .spawn(move || Kernel::real_with(1, theirs).run_real(&flag))
        .expect("a thread");
    let (sender, receiver) = std::sync::mpsc::channel();
    measure(what, || {
        for n in 0..rounds {
            let sender = sender.clone();
            inbox.post(move |_| sender.send(n).expect("the other end waits"));
            receiver.recv().expect("the network thread runs");
        }
        rounds
    });
    stop.store(true, Ordering::Release);
    inbox.post(|_| ());
    network.join().expect("it ends");
}
