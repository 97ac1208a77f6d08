//! What the kernel promises to the code built on it, one file per promise.

mod determinism;
mod failure;
mod inbox;
mod network;
mod processes;
mod real;
mod requests;
mod tasks;
mod wakeups;

use shaketable_kernel::{
    Address, Endpoint, Kernel, NetworkConfig, Priority, ProcessId, ProcessSpec, Request,
};
use std::net::IpAddr;

/// Asks for the number back.
struct Echo(u64);
impl Request for Echo {
    type Reply = u64;
}

/// The `n`th process, on a machine of its own.
fn process(kernel: &Kernel, n: u8) -> ProcessId {
    kernel.add_process(ProcessSpec {
        name: format!("process {n}"),
        address: Address::v4(10, 0, 0, n, 4500),
        ..ProcessSpec::default()
    })
}

fn ip(kernel: &Kernel, process: ProcessId) -> IpAddr {
    kernel.process(process).address.ip
}

/// A simulation with two processes on two machines.
fn two(seed: u64) -> (Kernel, ProcessId, ProcessId) {
    let kernel = Kernel::simulation(seed);
    let (a, b) = (process(&kernel, 1), process(&kernel, 2));
    (kernel, a, b)
}

/// Lets the process answer every [`Echo`] at once.
fn serve(kernel: &Kernel, process: ProcessId) -> Endpoint<Echo> {
    let (endpoint, mut requests) = kernel.listen::<Echo>(process);
    kernel
        .spawn(process, Priority::DefaultEndpoint, async move {
            loop {
                let (Echo(n), reply) = requests.recv().await;
                reply.send(n);
            }
        })
        .detach();
    endpoint
}

/// A network where every message takes exactly one millisecond.
fn one_millisecond() -> NetworkConfig {
    NetworkConfig {
        batching_seconds: 0.0,
        half_latency_min_seconds: 0.0005,
        half_latency_fast_seconds: 0.0005,
        slow_chance: 0.0,
        split_chance: 0.0,
        connect_latency_seconds: 0.0,
        ..NetworkConfig::simulation()
    }
}
