//! A request ends in exactly one way.

use crate::{Echo, ip, one_millisecond, process, serve, two};
use shaketable_kernel::{
    ClogMode, Disconnected, Endpoint, Kernel, KillKind, Priority, Request, Serving, Time,
};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

#[test]
fn a_request_gets_its_reply_after_two_latencies() {
    let (kernel, client, server) = two(1);
    kernel.set_network_config(one_millisecond());
    let endpoint = serve(&kernel, server);
    assert_eq!(
        kernel.block_on(endpoint.request(client, Echo(7))),
        Ok(Ok(7))
    );
    assert_eq!(kernel.now(), Time::from_secs(0.002));
}

#[test]
fn a_request_is_sent_by_the_call_and_not_by_the_first_poll() {
    let (kernel, client, server) = two(1);
    let (endpoint, mut requests) = kernel.listen::<Echo>(server);
    let request = endpoint.request(client, Echo(7));
    kernel.run_until(Time::from_secs(1.0)).unwrap();
    let (Echo(n), reply) = requests.try_recv().unwrap();
    assert_eq!((n, reply.from()), (7, client));
    reply.send(8);
    kernel.run_until(Time::from_secs(2.0)).unwrap();
    assert_eq!(kernel.block_on(request), Ok(Ok(8)));
    assert_eq!(kernel.now(), Time::from_secs(2.0));
}

#[test]
fn a_request_to_the_own_process_takes_no_time_but_a_trip_through_the_queue() {
    let (kernel, _, server) = two(1);
    let endpoint = serve(&kernel, server);
    let request = endpoint.request(server, Echo(7));
    assert_eq!(kernel.block_on(request), Ok(Ok(7)));
    assert_eq!(kernel.now(), Time::ZERO);
    assert!(kernel.events() >= 2);
}

#[test]
fn a_request_to_a_dead_process_may_have_been_delivered_until_everybody_knows() {
    let (kernel, client, server) = two(1);
    let endpoint = serve(&kernel, server);
    kernel.kill(server, KillKind::KillInstantly);
    for _ in 0..2 {
        let sent = kernel.now();
        let result = kernel.block_on(endpoint.request(client, Echo(7)));
        assert_eq!(result, Ok(Err(Disconnected::MaybeDelivered)));
        let waited = kernel.now() - sent;
        assert!((1.5..2.3).contains(&waited), "{waited}");
    }
    kernel.run_until(Time::from_secs(6.3)).unwrap();
    let result = kernel.block_on(endpoint.request(client, Echo(7)));
    assert_eq!(result, Ok(Err(Disconnected::Refused)));
    assert!(kernel.now() > Time::from_secs(6.3), "time has passed");
    assert!(kernel.now() < Time::from_secs(6.6), "but not much");
}

#[test]
fn one_who_asks_a_process_that_died_long_ago_is_refused() {
    let (kernel, client, server) = two(1);
    let endpoint = serve(&kernel, server);
    kernel.kill(server, KillKind::KillInstantly);
    kernel.run_until(Time::from_secs(10.0)).unwrap();
    let result = kernel.block_on(endpoint.request(client, Echo(7)));
    assert_eq!(result, Ok(Err(Disconnected::Refused)));
    assert!(kernel.now() < Time::from_secs(10.3));
}

#[test]
fn a_reliable_request_to_a_dead_process_ends_when_that_counts_as_failed() {
    let (kernel, client, server) = two(1);
    let (endpoint, _requests) = kernel.listen::<Echo>(server);
    let request = endpoint.request_reliably(client, Echo(7));
    kernel.run_until(Time::from_secs(10.0)).unwrap();
    kernel.kill(server, KillKind::KillInstantly);
    let result = kernel.block_on(request);
    assert_eq!(result, Ok(Err(Disconnected::MaybeDelivered)));
    let noticed = kernel.now().as_secs();
    assert!((15.5..16.3).contains(&noticed), "{noticed}");
    assert!(kernel.is_failed(client, server));
}

#[test]
fn a_request_to_an_earlier_incarnation_is_refused() {
    let (kernel, client, server) = two(1);
    let endpoint = serve(&kernel, server);
    kernel.kill(server, KillKind::Reboot);
    assert!(kernel.boot(server));
    let result = kernel.block_on(endpoint.request(client, Echo(7)));
    assert_eq!(result, Ok(Err(Disconnected::Refused)));
}

#[test]
fn a_request_nobody_took_before_the_stream_closed_is_refused() {
    let (kernel, client, server) = two(1);
    let (endpoint, requests) = kernel.listen::<Echo>(server);
    let waiting = endpoint.request(client, Echo(1));
    kernel.run_until(Time::from_secs(1.0)).unwrap();
    drop(requests);
    assert_eq!(kernel.block_on(waiting), Ok(Err(Disconnected::Refused)));
    let late = endpoint.request(client, Echo(2));
    assert_eq!(kernel.block_on(late), Ok(Err(Disconnected::Refused)));
}

#[test]
fn a_request_whose_receiver_dies_may_have_been_delivered() {
    let (kernel, client, server) = two(1);
    kernel.set_network_config(one_millisecond());
    let (endpoint, mut requests) = kernel.listen::<Echo>(server);
    let request = endpoint.request(client, Echo(7));
    let kernel2 = kernel.clone();
    kernel
        .spawn(server, Priority::DefaultEndpoint, async move {
            let (_, _reply) = requests.recv().await;
            kernel2.sleep(1.0).await;
            kernel2.kill(server, KillKind::Reboot);
            std::future::pending::<()>().await;
        })
        .detach();
    assert_eq!(
        kernel.block_on(request),
        Ok(Err(Disconnected::MaybeDelivered))
    );
    let noticed = kernel.now().as_secs();
    assert!(
        (2.5..3.3).contains(&noticed),
        "the dead are silent: {noticed}"
    );
}

#[test]
fn a_reply_sent_before_the_death_of_its_sender_still_arrives() {
    let (kernel, client, server) = two(1);
    let (endpoint, mut requests) = kernel.listen::<Echo>(server);
    let request = endpoint.request(client, Echo(7));
    let kernel2 = kernel.clone();
    kernel
        .spawn(server, Priority::DefaultEndpoint, async move {
            let (Echo(n), reply) = requests.recv().await;
            reply.send(n);
            kernel2.kill(server, KillKind::Reboot);
        })
        .detach();
    assert_eq!(kernel.block_on(request), Ok(Ok(7)));
}

#[test]
fn a_reply_dropped_unused_tells_so_after_a_latency() {
    let (kernel, client, server) = two(1);
    kernel.set_network_config(one_millisecond());
    let (endpoint, mut requests) = kernel.listen::<Echo>(server);
    let request = endpoint.request(client, Echo(7));
    kernel
        .spawn(server, Priority::DefaultEndpoint, async move {
            drop(requests.recv().await);
            std::future::pending::<()>().await;
        })
        .detach();
    assert_eq!(
        kernel.block_on(request),
        Ok(Err(Disconnected::MaybeDelivered))
    );
    assert_eq!(kernel.now(), Time::from_secs(0.002));
}

#[test]
fn a_broken_connection_ends_the_requests_of_both_directions_and_no_others() {
    let (kernel, a, b) = two(1);
    let c = process(&kernel, 3);
    let (to_a, _a) = kernel.listen::<Echo>(a);
    let (to_b, _b) = kernel.listen::<Echo>(b);
    let mut ends = [(a, &to_b), (b, &to_a), (c, &to_b)].map(|(from, to)| to.request(from, Echo(1)));
    kernel.close_connection(b, a);
    for request in &mut ends[..2] {
        assert_eq!(
            kernel.block_on(request),
            Ok(Err(Disconnected::MaybeDelivered))
        );
    }
    assert!(
        kernel.block_on(&mut ends[2]).is_err(),
        "the third connection lives"
    );
}

#[test]
fn messages_on_a_connection_that_breaks_are_sometimes_lost_and_sometimes_not() {
    let mut arrived = 0;
    for seed in 0..100 {
        let (kernel, client, server) = two(seed);
        let (endpoint, mut requests) = kernel.listen::<Echo>(server);
        let request = endpoint.request(client, Echo(7));
        kernel.close_connection(client, server);
        assert_eq!(
            kernel.block_on(request),
            Ok(Err(Disconnected::MaybeDelivered))
        );
        kernel.run_until(Time::from_secs(1.0)).unwrap();
        arrived += usize::from(requests.try_recv().is_some());
    }
    assert!((30..70).contains(&arrived), "{arrived}");
}

#[test]
fn a_connection_breaks_by_chance_only_while_that_is_enabled() {
    let outcomes = |enabled: bool, faults: bool| {
        let (kernel, client, server) = two(1);
        let mut config = one_millisecond();
        config.connection_failure_chance = 0.1;
        kernel.set_network_config(config);
        kernel.set_connection_failures(enabled);
        kernel.set_faults_enabled(faults);
        let endpoint = serve(&kernel, server);
        let lost = (0..500).filter(|n| {
            let result = kernel.block_on(endpoint.request(client, Echo(*n))).unwrap();
            result == Err(Disconnected::MaybeDelivered)
        });
        lost.count()
    };
    assert!((60..130).contains(&outcomes(true, true)), "a tenth, twice");
    assert_eq!(outcomes(false, true), 0);
    assert_eq!(outcomes(true, false), 0);
}

/// Counts how many of it there are.
struct Counted(Rc<Cell<i32>>);
impl Counted {
    fn new(count: &Rc<Cell<i32>>) -> Counted {
        count.set(count.get() + 1);
        Counted(count.clone())
    }
}
impl Drop for Counted {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

struct Carry(#[expect(dead_code, reason = "it is there to be dropped")] Counted);
impl Request for Carry {
    type Reply = Counted;
}

#[test]
fn no_message_outlives_its_request_whatever_becomes_of_either_side() {
    let count = Rc::new(Cell::new(0));
    for seed in 0..500 {
        let (kernel, client, server) = two(seed);
        let stream = kernel.stream("test");
        let (endpoint, mut requests) = kernel.listen::<Carry>(server);
        let (kernel2, count2, stream2) = (kernel.clone(), count.clone(), stream.clone());
        kernel
            .spawn(server, Priority::DefaultEndpoint, async move {
                loop {
                    let (request, reply) = requests.recv().await;
                    kernel2.sleep(stream2.range(0.0, 0.002)).await;
                    if stream2.chance(0.7) {
                        reply.send(Counted::new(&count2));
                    }
                    drop(request);
                }
            })
            .detach();
        let mut pending = Vec::new();
        for _ in 0..20 {
            let request = endpoint.request(client, Carry(Counted::new(&count)));
            pending.push(request);
            kernel
                .run_until(kernel.now() + stream.range(0.0, 0.003))
                .unwrap();
            let (here, there) = (ip(&kernel, client), ip(&kernel, server));
            match stream.below(40) {
                0 => kernel.reboot(server, KillKind::Reboot, 0.5),
                1 => kernel.close_connection(client, server),
                2 => kernel.clog_pair(here, there, stream.range(0.0, 5.0)),
                3 => kernel.clog_pair(there, here, stream.range(0.0, 5.0)),
                4 => kernel.partition(here, there),
                5 => kernel.heal(here, there),
                6 => kernel.clog_interface(there, ClogMode::All, stream.range(0.0, 60.0)),
                7 => kernel.unclog_interface(there),
                8..20 => {
                    let index = stream.index(pending.len());
                    drop(pending.swap_remove(index));
                }
                _ => {}
            }
        }
        kernel.run_until(kernel.now() + 10.0).unwrap();
        for request in pending {
            // Exactly one outcome, and it is there by now.
            let now = kernel.now();
            assert!(
                kernel.block_on(request).is_ok(),
                "seed {seed}: a request hangs"
            );
            assert_eq!(kernel.now(), now, "seed {seed}");
        }
        kernel.kill(server, KillKind::KillInstantly);
        kernel.set_faults_enabled(false);
        kernel.run_until(kernel.now() + 70.0).unwrap();
        assert_eq!((count.get(), kernel.next_timer()), (0, None), "seed {seed}");
    }
}

#[test]
fn requests_of_one_sender_arrive_in_order() {
    let (kernel, client, server) = two(3);
    let (endpoint, mut requests) = kernel.listen::<Echo>(server);
    for n in 0..500 {
        endpoint.send(client, Echo(n));
        kernel.run_until(kernel.now() + 0.0001).unwrap();
    }
    kernel.run_until(Time::from_secs(10.0)).unwrap();
    let arrived: Vec<u64> = std::iter::from_fn(|| requests.try_recv())
        .map(|(Echo(n), _)| n)
        .collect();
    assert_eq!(arrived, (0..500).collect::<Vec<_>>());
}

/// Carries an endpoint to answer to.
struct Introduce(Endpoint<Echo>);
impl Request for Introduce {
    type Reply = Endpoint<Echo>;
}

#[test]
fn endpoints_travel_inside_messages() {
    let (kernel, a, b) = two(1);
    let to_a = serve(&kernel, a);
    let to_b = serve(&kernel, b);
    let (introduce, mut requests) = kernel.listen::<Introduce>(b);
    let own = to_b.clone();
    kernel
        .spawn(b, Priority::DefaultEndpoint, async move {
            let (Introduce(other), reply) = requests.recv().await;
            assert_eq!(other.request(b, Echo(5)).await, Ok(5));
            reply.send(own);
        })
        .detach();
    let received = kernel
        .block_on(introduce.request(a, Introduce(to_a)))
        .unwrap()
        .unwrap();
    assert!(received == to_b && received.process() == b);
    assert_eq!(kernel.block_on(received.request(a, Echo(6))), Ok(Ok(6)));
}

#[test]
fn a_well_known_endpoint_finds_whoever_listens_now() {
    let (kernel, client, server) = two(1);
    let endpoint = kernel.well_known_endpoint::<Echo>(server, "echo");
    let ask = |n| kernel.block_on(endpoint.request(client, Echo(n))).unwrap();
    assert_eq!(ask(1), Err(Disconnected::Refused), "nobody listens yet");
    kernel.set_boot(
        server,
        Rc::new(|kernel, process| {
            let mut requests = kernel.listen_well_known::<Echo>(process, "echo");
            let life = u64::from(kernel.incarnation(process));
            kernel
                .spawn(process, Priority::DefaultEndpoint, async move {
                    loop {
                        let (Echo(n), reply) = requests.recv().await;
                        if n > 0 {
                            reply.send(1000 * life + n);
                        }
                    }
                })
                .detach();
        }),
    );
    kernel.boot(server);
    assert_eq!(ask(2), Ok(2));
    kernel.kill(server, KillKind::Reboot);
    assert_eq!(ask(3), Err(Disconnected::MaybeDelivered));
    // Sent to a dead process, it reaches the next incarnation, whose dropped replies are reported
    // as well.
    let (answered, dropped) = (
        endpoint.request(client, Echo(4)),
        endpoint.request(client, Echo(0)),
    );
    kernel.boot(server);
    assert_eq!(kernel.block_on(answered), Ok(Ok(1004)));
    assert_eq!(
        kernel.block_on(dropped),
        Ok(Err(Disconnected::MaybeDelivered))
    );
}

#[test]
fn a_dead_process_sends_nothing() {
    let (kernel, client, server) = two(1);
    let (endpoint, mut requests) = kernel.listen::<Echo>(server);
    kernel.kill(client, KillKind::Reboot);
    let request = endpoint.request(client, Echo(1));
    assert_eq!(kernel.block_on(request), Ok(Err(Disconnected::Refused)));
    kernel.run_until(Time::from_secs(1.0)).unwrap();
    assert!(requests.try_recv().is_none());
}

#[test]
fn an_endpoint_that_outlives_its_kernel_refuses() {
    let (kernel, client, server) = two(1);
    let endpoint = serve(&kernel, server);
    kernel.shutdown();
    drop(kernel);
    let other = Kernel::simulation(1);
    let request = endpoint.request(client, Echo(1));
    assert_eq!(other.block_on(request), Ok(Err(Disconnected::Refused)));
}

/// A server that handles each request where it arrives, and notes what it was and which process it
/// ran as.
fn noting(
    kernel: &Kernel,
    server: shaketable_kernel::ProcessId,
) -> (Endpoint<Echo>, Rc<RefCell<Vec<u64>>>, Serving) {
    let (endpoint, stream) = kernel.listen::<Echo>(server);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let (kernel2, seen2) = (kernel.clone(), seen.clone());
    let serving = stream.serve(Priority::DefaultEndpoint, move |Echo(n), reply| {
        assert_eq!(kernel2.current_process(), Some(server));
        seen2.borrow_mut().push(n);
        reply.send(n);
    });
    (endpoint, seen, serving)
}

#[test]
fn a_served_request_from_afar_wakes_nobody_but_the_one_who_asked() {
    let (kernel, client, server) = two(1);
    let (endpoint, seen, _serving) = noting(&kernel, server);
    let request = endpoint.request(client, Echo(7));
    let before = kernel.events();
    assert!(kernel.advance(), "the request arrives");
    assert_eq!(*seen.borrow(), [7]);
    assert_eq!(kernel.events() - before, 1);
    assert_eq!(kernel.current_process(), None);
    assert_eq!(kernel.block_on(request), Ok(Ok(7)));
}

#[test]
fn a_served_request_of_the_process_itself_waits_for_its_turn_and_keeps_its_place() {
    let (kernel, client, server) = two(1);
    kernel.set_network_config(one_millisecond());
    let (endpoint, seen, _serving) = noting(&kernel, server);
    let far = endpoint.request(client, Echo(2));
    let kernel2 = kernel.clone();
    let own = endpoint.clone();
    // At the same moment as the one from afar arrives, but before it.
    kernel.call_at(Time::from_secs(0.001), move |_| {
        own.send(server, Echo(3));
        assert_eq!(kernel2.current_process(), None);
    });
    let first = endpoint.request(server, Echo(1));
    assert!(seen.borrow().is_empty(), "not inside the call");
    assert_eq!(kernel.block_on(first), Ok(Ok(1)));
    assert_eq!(kernel.block_on(far), Ok(Ok(2)));
    assert_eq!(*seen.borrow(), [1, 2, 3]);
}

#[test]
fn a_server_that_dies_of_a_request_answers_neither_it_nor_the_next() {
    let (kernel, client, server) = two(1);
    let (endpoint, stream) = kernel.listen::<Echo>(server);
    let kernel2 = kernel.clone();
    let _serving = stream.serve(Priority::DefaultEndpoint, move |_, reply| {
        kernel2.kill(server, KillKind::KillInstantly);
        reply.send(0);
    });
    let last = kernel.block_on(endpoint.request(client, Echo(1))).unwrap();
    assert_eq!(last, Err(Disconnected::MaybeDelivered));
    let next = kernel.block_on(endpoint.request(client, Echo(2)));
    assert_eq!(next, Ok(Err(Disconnected::MaybeDelivered)));
}
