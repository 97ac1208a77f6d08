//! How long messages take, and what holds them back.

use crate::{Echo, ip, one_millisecond, process, serve, two};
use shaketable_kernel::{
    Address, ClogMode, Disconnected, Kernel, KillKind, NetworkConfig, ProcessSpec, Time,
};

/// The latencies of `count` messages, sent one at a time.
fn latencies(kernel: &Kernel, count: usize) -> Vec<f64> {
    let (a, b) = (process(kernel, 1), process(kernel, 2));
    let (endpoint, mut requests) = kernel.listen::<Echo>(b);
    (0..count)
        .map(|n| {
            let sent = kernel.now();
            endpoint.send(a, Echo(n as u64));
            while requests.try_recv().is_none() {
                assert!(kernel.advance());
            }
            kernel.now() - sent
        })
        .collect()
}

#[test]
fn messages_take_as_long_as_in_the_real_simulator() {
    let latencies = latencies(&Kernel::simulation(1), 20_000);
    let shortest = latencies.iter().copied().fold(f64::MAX, f64::min);
    assert!((0.0001..0.0002).contains(&shortest), "{shortest}");
    let slow = latencies.iter().filter(|latency| **latency > 0.01).count();
    assert!(
        (40..100).contains(&slow),
        "one in a thousand, for each half of the way: {slow}"
    );
    let mean = latencies.iter().sum::<f64>() / latencies.len() as f64;
    // Half of 2 ms batching, and on average two parts, each with twice 225 us and a twentieth of a
    // millisecond for the slow ones.
    assert!((0.0019..0.0021).contains(&mean), "{mean}");
    let whole = latencies.iter().filter(|latency| **latency < 0.002_4);
    assert!(whole.count() > 10_000, "half arrive in one piece");
}

#[test]
fn each_ordered_pair_of_addresses_may_have_a_latency_of_its_own() {
    let kernel = Kernel::simulation(1);
    let (a, b) = (process(&kernel, 1), process(&kernel, 2));
    kernel.set_network_config(NetworkConfig {
        pair_latency_seconds: 0.1,
        ..one_millisecond()
    });
    let time = |from, to| {
        let (endpoint, mut requests) = kernel.listen::<Echo>(to);
        let sent = kernel.now();
        endpoint.send(from, Echo(1));
        while requests.try_recv().is_none() {
            assert!(kernel.advance());
        }
        (1e9 * (kernel.now() - sent)).round() as u64
    };
    let (there, back) = (time(a, b), time(b, a));
    assert_ne!(there, back);
    assert_eq!((time(a, b), time(b, a)), (there, back));
    assert!(there > 1_000_000 && there < 101_000_000);
}

#[test]
fn the_first_message_after_a_break_pays_for_connecting() {
    let (kernel, a, b) = two(1);
    kernel.set_network_config(NetworkConfig {
        connect_latency_seconds: 0.5,
        ..one_millisecond()
    });
    let endpoint = serve(&kernel, b);
    let time = || {
        let sent = kernel.now();
        kernel
            .block_on(endpoint.request(a, Echo(1)))
            .unwrap()
            .unwrap();
        kernel.now() - sent
    };
    assert!(time() < 0.0021, "processes count as connected at first");
    kernel.close_connection(a, b);
    let first = time();
    assert!((0.01..0.502).contains(&first), "{first}");
    assert!(time() < 0.0021);
    // So does the first one to or from a new incarnation.
    for process in [a, b] {
        kernel.kill(process, KillKind::Reboot);
        kernel.boot(process);
        let endpoint = serve(&kernel, b);
        let sent = kernel.now();
        kernel
            .block_on(endpoint.request(a, Echo(1)))
            .unwrap()
            .unwrap();
        assert!(kernel.now() - sent > 0.01);
    }
}

#[test]
fn most_connections_that_break_by_chance_do_so_silently() {
    let (mut at_once, mut silent) = (0, 0);
    for seed in 0..100 {
        let (kernel, a, b) = two(seed);
        kernel.set_network_config(NetworkConfig {
            connection_failure_chance: 1.0,
            ..one_millisecond()
        });
        kernel.set_connection_failures(true);
        let endpoint = serve(&kernel, b);
        let result = kernel.block_on(endpoint.request(a, Echo(1)));
        assert_eq!(result, Ok(Err(Disconnected::MaybeDelivered)));
        match kernel.now().as_secs() {
            noticed if noticed < 0.01 => at_once += 1,
            noticed => {
                assert!((1.5..2.3).contains(&noticed), "{noticed}");
                silent += 1;
            }
        }
    }
    assert!((20..40).contains(&at_once), "{at_once} and {silent}");
}

#[test]
fn a_reliable_request_outlives_its_connection_and_is_taken_once() {
    for seed in 0..50 {
        let (kernel, a, b) = two(seed);
        let (endpoint, mut requests) = kernel.listen::<Echo>(b);
        let request = endpoint.request_reliably(a, Echo(1));
        kernel.close_connection(a, b);
        let answered = kernel.block_on(async {
            let (Echo(n), reply) = requests.recv().await;
            reply.send(n);
            kernel.close_connection(a, b);
            request.await
        });
        assert_eq!(answered, Ok(Ok(1)), "seed {seed}");
        assert!(requests.try_recv().is_none());
    }
}

#[test]
fn a_reliable_request_ends_with_the_life_of_its_receiver() {
    let (kernel, a, b) = two(1);
    let (endpoint, _requests) = kernel.listen::<Echo>(b);
    let request = endpoint.request_reliably(a, Echo(1));
    kernel.run_until(Time::from_secs(1.0)).unwrap();
    kernel.kill(b, KillKind::KillInstantly);
    assert_eq!(
        kernel.block_on(request),
        Ok(Err(Disconnected::MaybeDelivered))
    );
}

#[test]
fn an_instant_network_costs_no_time() {
    let (kernel, a, b) = two(1);
    kernel.set_network_config(NetworkConfig::instant());
    let endpoint = serve(&kernel, b);
    assert_eq!(kernel.block_on(endpoint.request(a, Echo(1))), Ok(Ok(1)));
    assert_eq!(kernel.now(), Time::ZERO);
}

/// Sends 1, 2, 3 and returns when each arrives.
fn arrivals(clog: impl FnOnce(&Kernel, [std::net::IpAddr; 2])) -> Vec<(u64, Time)> {
    let (kernel, a, b) = two(1);
    kernel.set_network_config(one_millisecond());
    let (endpoint, mut requests) = kernel.listen::<Echo>(b);
    endpoint.send(a, Echo(1));
    kernel.run_until(Time::from_secs(0.0005)).unwrap();
    clog(&kernel, [ip(&kernel, a), ip(&kernel, b)]);
    endpoint.send(a, Echo(2));
    let mut arrived = Vec::new();
    kernel.call_at(Time::from_secs(0.5), {
        let endpoint = endpoint.clone();
        move |_| endpoint.send(a, Echo(3))
    });
    loop {
        while let Some((Echo(n), _)) = requests.try_recv() {
            arrived.push((n, kernel.now()));
        }
        if !kernel.advance() {
            return arrived;
        }
    }
}

#[test]
fn a_clog_holds_back_what_is_in_flight_and_what_is_sent_and_keeps_the_order() {
    let end = Time::from_secs(1.0005);
    let all_at_the_end = vec![(1, end), (2, end), (3, end)];
    assert_eq!(
        arrivals(|kernel, [a, b]| kernel.clog_pair(a, b, 1.0)),
        all_at_the_end
    );
    assert_eq!(
        arrivals(|kernel, [_, b]| kernel.clog_interface(b, ClogMode::All, 1.0)),
        all_at_the_end
    );
    assert_eq!(
        arrivals(|kernel, [_, b]| kernel.clog_interface(b, ClogMode::Receive, 1.0)),
        all_at_the_end
    );
    // A shorter clog does not end a longer one.
    assert_eq!(
        arrivals(|kernel, [a, b]| {
            kernel.clog_pair(a, b, 1.0);
            kernel.clog_pair(a, b, 0.1);
        }),
        all_at_the_end
    );
}

#[test]
fn clogs_of_the_other_direction_of_the_sender_or_of_sending_hold_back_nothing() {
    let free = vec![
        (1, Time::from_secs(0.001)),
        (2, Time::from_secs(0.0015)),
        (3, Time::from_secs(0.501)),
    ];
    assert_eq!(arrivals(|kernel, [a, b]| kernel.clog_pair(b, a, 1.0)), free);
    assert_eq!(
        arrivals(|kernel, [_, b]| kernel.clog_interface(b, ClogMode::Send, 1.0)),
        free
    );
    assert_eq!(
        arrivals(|kernel, [a, _]| kernel.clog_interface(a, ClogMode::All, 1.0)),
        free
    );
}

#[test]
fn a_clog_that_is_extended_while_messages_wait_holds_them_longer() {
    let end = Time::from_secs(1.4);
    let arrived = arrivals(|kernel, [a, b]| {
        kernel.clog_pair(a, b, 0.3);
        kernel.call_at(Time::from_secs(0.2), move |kernel| {
            kernel.clog_pair(a, b, 1.2)
        });
    });
    assert_eq!(arrived, [(1, end), (2, end), (3, end)]);
}

#[test]
fn what_a_clog_holds_back_arrives_when_it_is_ended_early() {
    let end = Time::from_secs(0.7);
    let early = [(1, end), (2, end), (3, end)];
    assert_eq!(
        arrivals(|kernel, [a, b]| {
            kernel.clog_pair(a, b, 100.0);
            kernel.call_at(end, move |kernel| kernel.unclog_pair(a, b));
        }),
        early
    );
    assert_eq!(
        arrivals(|kernel, [_, b]| {
            kernel.clog_interface(b, ClogMode::All, 100.0);
            kernel.call_at(end, move |kernel| kernel.unclog_interface(b));
        }),
        early
    );
    assert_eq!(
        arrivals(|kernel, [a, b]| {
            kernel.partition(b, a);
            kernel.call_at(end, move |kernel| kernel.heal(a, b));
        }),
        early
    );
    assert_eq!(
        arrivals(|kernel, [a, b]| {
            kernel.clog_pair(a, b, 100.0);
            kernel.partition(a, b);
            kernel.call_at(end, |kernel| kernel.set_faults_enabled(false));
        }),
        early
    );
}

#[test]
fn an_address_that_is_cut_off_stays_so() {
    assert_eq!(
        arrivals(|kernel, [a, _]| {
            kernel.cut_off(a);
            kernel.set_faults_enabled(false);
        }),
        []
    );
    assert_eq!(
        arrivals(|kernel, [a, b]| {
            kernel.clog_interface(b, ClogMode::All, 1.0);
            kernel.cut_off(b);
            kernel.unclog_interface(b);
            kernel.partition(a, b);
            kernel.heal(a, b);
        }),
        []
    );
}

#[test]
fn ending_one_clog_does_not_end_another() {
    let end = Time::from_secs(1.0005);
    let held = [(1, end), (2, end), (3, end)];
    assert_eq!(
        arrivals(|kernel, [a, b]| {
            kernel.clog_interface(b, ClogMode::All, 1.0);
            kernel.clog_pair(a, b, 60.0);
            kernel.unclog_pair(a, b);
        }),
        held
    );
    assert_eq!(
        arrivals(|kernel, [a, b]| {
            kernel.clog_pair(a, b, 1.0);
            kernel.clog_interface(b, ClogMode::All, 60.0);
            kernel.partition(a, b);
            kernel.heal(b, a);
            kernel.unclog_interface(b);
        }),
        held
    );
}

#[test]
fn clogs_set_while_faults_are_off_hold_back_nothing_until_they_are_on() {
    let (kernel, a, b) = two(1);
    kernel.set_network_config(one_millisecond());
    let endpoint = serve(&kernel, b);
    kernel.set_faults_enabled(false);
    assert!(!kernel.faults_enabled());
    kernel.clog_pair(ip(&kernel, a), ip(&kernel, b), 1.0);
    kernel
        .block_on(endpoint.request(a, Echo(1)))
        .unwrap()
        .unwrap();
    assert_eq!(kernel.now(), Time::from_secs(0.002));
    kernel.set_faults_enabled(true);
    kernel
        .block_on(endpoint.request(a, Echo(1)))
        .unwrap()
        .unwrap();
    assert_eq!(kernel.now(), Time::from_secs(1.001));
}

#[test]
fn a_partition_cuts_both_ways_until_it_is_healed() {
    let (kernel, a, b) = two(1);
    let (to_a, to_b) = (serve(&kernel, a), serve(&kernel, b));
    kernel.partition(ip(&kernel, a), ip(&kernel, b));
    let (there, back) = (to_b.request(a, Echo(1)), to_a.request(b, Echo(1)));
    assert_eq!(
        kernel.block_on(there),
        Ok(Err(Disconnected::MaybeDelivered))
    );
    assert_eq!(kernel.block_on(back), Ok(Err(Disconnected::MaybeDelivered)));
    kernel.heal(ip(&kernel, a), ip(&kernel, b));
    assert_eq!(kernel.block_on(to_b.request(a, Echo(2))), Ok(Ok(2)));
    assert_eq!(kernel.block_on(to_a.request(b, Echo(2))), Ok(Ok(2)));
}

#[test]
fn processes_of_one_machine_share_its_clogs_and_not_those_of_others() {
    let (kernel, a, b) = two(1);
    let c = process(&kernel, 3);
    let neighbour = kernel.add_process(ProcessSpec {
        address: Address::v4(10, 0, 0, 2, 4501),
        ..ProcessSpec::default()
    });
    let (to_c, to_neighbour) = (serve(&kernel, c), serve(&kernel, neighbour));
    kernel.clog_interface(ip(&kernel, b), ClogMode::All, 1.0);
    kernel.block_on(to_c.request(a, Echo(1))).unwrap().unwrap();
    assert!(kernel.now() < Time::from_secs(0.3));
    kernel
        .block_on(to_neighbour.request(a, Echo(1)))
        .unwrap()
        .unwrap();
    assert!(kernel.now() > Time::from_secs(1.0));
}

#[test]
fn idle_time_costs_nothing() {
    let (kernel, a, b) = two(1);
    let endpoint = serve(&kernel, b);
    kernel
        .block_on(endpoint.request(a, Echo(1)))
        .unwrap()
        .unwrap();
    let before = kernel.events();
    kernel.run_until(kernel.now() + 1e6).unwrap();
    assert_eq!(kernel.events(), before);
    assert_eq!(kernel.next_timer(), None);
}
