//! Requests between processes.

use shaketable_kernel::{
    Address, Disconnected, Endpoint, Kernel, KillKind, Priority, ProcessId, ProcessSpec, Request,
    Time,
};

struct Echo(u64);
impl Request for Echo {
    type Reply = u64;
}

fn process(kernel: &Kernel, n: u8) -> ProcessId {
    kernel.add_process(ProcessSpec {
        name: format!("process {n}"),
        address: Address::v4(10, 0, 0, n, 4500),
        ..ProcessSpec::default()
    })
}

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

#[test]
fn a_request_gets_its_reply_after_two_latencies() {
    let kernel = Kernel::simulation(1);
    let (client, server) = (process(&kernel, 1), process(&kernel, 2));
    let endpoint = serve(&kernel, server);
    assert_eq!(
        kernel.block_on(endpoint.request(client, Echo(7))),
        Ok(Ok(7))
    );
    assert!(kernel.now() > Time::from_secs(0.0002), "{:?}", kernel.now());
}

#[test]
fn a_request_to_oneself_takes_no_time() {
    let kernel = Kernel::simulation(1);
    let server = process(&kernel, 2);
    let endpoint = serve(&kernel, server);
    assert_eq!(
        kernel.block_on(endpoint.request(server, Echo(7))),
        Ok(Ok(7))
    );
    assert_eq!(kernel.now(), Time::ZERO);
}

#[test]
fn a_request_to_the_dead_is_refused() {
    let kernel = Kernel::simulation(1);
    let (client, server) = (process(&kernel, 1), process(&kernel, 2));
    let endpoint = serve(&kernel, server);
    kernel.kill(server, KillKind::KillInstantly);
    let result = kernel.block_on(endpoint.request(client, Echo(7)));
    assert_eq!(result, Ok(Err(Disconnected::Refused)));
}

#[test]
fn a_request_whose_receiver_dies_may_have_been_delivered() {
    let kernel = Kernel::simulation(1);
    let (client, server) = (process(&kernel, 1), process(&kernel, 2));
    let (endpoint, mut requests) = kernel.listen::<Echo>(server);
    let request = endpoint.request(client, Echo(7));
    let kernel2 = kernel.clone();
    kernel
        .spawn(server, Priority::DefaultEndpoint, async move {
            let (_, _reply) = requests.recv().await;
            kernel2.kill(server, KillKind::Reboot);
            std::future::pending::<()>().await;
        })
        .detach();
    assert_eq!(
        kernel.block_on(request),
        Ok(Err(Disconnected::MaybeDelivered))
    );
}
