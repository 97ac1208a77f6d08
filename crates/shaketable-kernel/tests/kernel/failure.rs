//! Which process notices a failure, and when.

use crate::{Echo, ip, one_millisecond, serve, two};
use shaketable_kernel::{Disconnected, Event, KillKind, LastEvents, Time};

#[test]
fn a_request_over_a_link_that_stays_clogged_ends_after_about_two_seconds() {
    for back in [false, true] {
        let (kernel, a, b) = two(1);
        let endpoint = serve(&kernel, b);
        let (from, to) = if back { (b, a) } else { (a, b) };
        kernel.clog_pair(ip(&kernel, from), ip(&kernel, to), 60.0);
        let result = kernel.block_on(endpoint.request(a, Echo(1)));
        assert_eq!(result, Ok(Err(Disconnected::MaybeDelivered)));
        let noticed = kernel.now().as_secs();
        assert!((1.5..2.3).contains(&noticed), "{noticed}");
    }
}

#[test]
fn a_request_that_waits_quietly_notices_a_clog_too() {
    let (kernel, a, b) = two(1);
    let (endpoint, _requests) = kernel.listen::<Echo>(b);
    let request = endpoint.request(a, Echo(1));
    kernel.run_until(Time::from_secs(10.0)).unwrap();
    kernel.clog_pair(ip(&kernel, b), ip(&kernel, a), 60.0);
    assert_eq!(
        kernel.block_on(request),
        Ok(Err(Disconnected::MaybeDelivered))
    );
    let noticed = kernel.now().as_secs();
    assert!((11.5..12.3).contains(&noticed), "{noticed}");
}

#[test]
fn a_clog_shorter_than_the_patience_breaks_nothing() {
    let (kernel, a, b) = two(1);
    let endpoint = serve(&kernel, b);
    kernel.clog_pair(ip(&kernel, a), ip(&kernel, b), 1.4);
    assert_eq!(kernel.block_on(endpoint.request(a, Echo(1))), Ok(Ok(1)));
}

#[test]
fn a_clog_that_is_ended_before_patience_runs_out_breaks_nothing() {
    for seed in 0..20 {
        let (kernel, a, b) = two(seed);
        let (endpoint, _requests) = kernel.listen::<Echo>(b);
        let (ip_a, ip_b) = (ip(&kernel, a), ip(&kernel, b));
        let mut request = endpoint.request(a, Echo(1));
        kernel.clog_pair(ip_a, ip_b, 60.0);
        kernel.call_at(Time::from_secs(1.0), move |kernel| {
            kernel.unclog_pair(ip_a, ip_b);
            kernel.clog_pair(ip_a, ip_b, 1.4);
        });
        let result = kernel.block_on(kernel.timeout(10.0, &mut request));
        assert_eq!(result, Ok(None), "two silences are not one, seed {seed}");
        // But if the second is too long as well, it counts from its own beginning.
        kernel.clog_pair(ip_a, ip_b, 60.0);
        kernel.call_at(Time::from_secs(11.0), move |kernel| {
            kernel.unclog_pair(ip_a, ip_b);
            kernel.clog_pair(ip_a, ip_b, 60.0);
        });
        assert_eq!(
            kernel.block_on(request),
            Ok(Err(Disconnected::MaybeDelivered))
        );
        assert!(kernel.now() > Time::from_secs(12.5) && kernel.now() < Time::from_secs(15.0));
    }
}

#[test]
fn a_request_sent_while_only_the_way_back_is_clogged_is_told_however_slow_the_receiver() {
    let (kernel, a, b) = two(1);
    let (endpoint, _requests) = kernel.listen::<Echo>(b);
    kernel.clog_pair(ip(&kernel, b), ip(&kernel, a), 60.0);
    let result = kernel.block_on(endpoint.request(a, Echo(1)));
    assert_eq!(result, Ok(Err(Disconnected::MaybeDelivered)));
    assert!(kernel.now() < Time::from_secs(2.3));
}

#[test]
fn a_request_that_nobody_waits_for_is_not_monitored() {
    let (kernel, a, b) = two(1);
    let (endpoint, _requests) = kernel.listen::<Echo>(b);
    drop(endpoint.request(a, Echo(1)));
    kernel.run_until(Time::from_secs(1.0)).unwrap();
    kernel.clog_pair(ip(&kernel, a), ip(&kernel, b), 60.0);
    assert_eq!(kernel.next_timer(), None);
}

#[test]
fn a_silence_is_counted_once_however_often_it_is_extended() {
    let (kernel, a, b) = two(1);
    let (endpoint, _requests) = kernel.listen::<Echo>(b);
    let _failed = kernel.on_failed(a, b);
    let _request = endpoint.request(a, Echo(1));
    for _ in 0..100 {
        kernel.clog_pair(ip(&kernel, a), ip(&kernel, b), 60.0);
        kernel.clog_pair(ip(&kernel, b), ip(&kernel, a), 60.0);
        kernel.run_until(kernel.now() + 0.001).unwrap();
    }
    let before = kernel.events();
    kernel.run_until(Time::from_secs(100.0)).unwrap();
    assert!(
        kernel.events() - before < 10,
        "{}",
        kernel.events() - before
    );
}

#[test]
fn a_silent_connection_breaks_once_for_both_its_sides() {
    let (kernel, a, b) = two(1);
    let (to_a, _a) = kernel.listen::<Echo>(a);
    let (to_b, _b) = kernel.listen::<Echo>(b);
    let last = LastEvents::new(10);
    let requests = [to_b.request(a, Echo(1)), to_a.request(b, Echo(1))];
    kernel.run_until(Time::from_secs(1.0)).unwrap();
    kernel.partition(ip(&kernel, a), ip(&kernel, b));
    kernel.set_recorder(Some(last.clone()));
    for request in requests {
        assert_eq!(
            kernel.block_on(request),
            Ok(Err(Disconnected::MaybeDelivered))
        );
    }
    let second = to_b.request(a, Echo(2));
    let sent = kernel.now();
    assert_eq!(
        kernel.block_on(second),
        Ok(Err(Disconnected::MaybeDelivered))
    );
    assert!(kernel.now() - sent >= 1.5, "the next one has its own time");
    let closed = |(_, event): &(Time, Event)| matches!(event, Event::ConnectionClosed { .. });
    assert_eq!(last.events().into_iter().filter(closed).count(), 2);
}

#[test]
fn messages_that_wait_while_blockades_come_and_go_cost_one_timer() {
    let (kernel, a, b) = two(1);
    let (endpoint, _requests) = kernel.listen::<Echo>(b);
    endpoint.send(a, Echo(1));
    endpoint.send(a, Echo(2));
    for _ in 0..100 {
        kernel.clog_pair(ip(&kernel, a), ip(&kernel, b), 1.0);
        kernel.unclog_pair(ip(&kernel, a), ip(&kernel, b));
    }
    kernel.run_until(Time::from_secs(100.0)).unwrap();
    assert!(kernel.events() <= 2, "{}", kernel.events());
}

#[test]
fn every_request_during_a_long_clog_is_told() {
    let (kernel, a, b) = two(1);
    let endpoint = serve(&kernel, b);
    kernel.clog_pair(ip(&kernel, a), ip(&kernel, b), 60.0);
    for _ in 0..10 {
        let sent = kernel.now();
        let result = kernel.block_on(endpoint.request(a, Echo(1)));
        assert_eq!(result, Ok(Err(Disconnected::MaybeDelivered)));
        assert!(kernel.now() - sent < 2.3);
    }
    kernel.run_until(Time::from_secs(61.0)).unwrap();
    assert_eq!(kernel.block_on(endpoint.request(a, Echo(1))), Ok(Ok(1)));
    kernel.run_until(Time::from_secs(100.0)).unwrap();
    assert_eq!(kernel.next_timer(), None, "no monitor stays behind");
}

#[test]
fn a_death_behind_a_clog_is_noticed_by_patience() {
    let (kernel, a, b) = two(1);
    let (endpoint, _requests) = kernel.listen::<Echo>(b);
    let request = endpoint.request(a, Echo(1));
    kernel.run_until(Time::from_secs(1.0)).unwrap();
    kernel.clog_pair(ip(&kernel, b), ip(&kernel, a), 60.0);
    kernel.kill(b, KillKind::KillInstantly);
    assert_eq!(
        kernel.block_on(request),
        Ok(Err(Disconnected::MaybeDelivered))
    );
    assert!(kernel.now() < Time::from_secs(3.3));
}

#[test]
fn an_observer_learns_of_a_death_by_silence_and_of_the_return_after_a_latency() {
    let (kernel, observer, process) = two(1);
    kernel.set_network_config(one_millisecond());
    let failed = kernel.on_failed(observer, process);
    assert!(!kernel.is_failed(observer, process));
    kernel.call_at(Time::from_secs(1.0), move |kernel| {
        kernel.reboot(process, KillKind::Reboot, 9.0);
    });
    kernel.block_on(failed).unwrap();
    let noticed = kernel.now();
    assert!((6.5..7.3).contains(&noticed.as_secs()), "{noticed}");
    assert!(kernel.is_failed(observer, process));
    kernel
        .block_on(kernel.on_failed(observer, process))
        .unwrap();
    assert_eq!(kernel.now(), noticed, "it is known already");
    kernel
        .block_on(kernel.on_available(observer, process))
        .unwrap();
    assert_eq!(kernel.now(), Time::from_secs(10.001));
    kernel
        .block_on(kernel.on_available(observer, process))
        .unwrap();
    assert_eq!(kernel.now(), Time::from_secs(10.001), "it is known already");
}

#[test]
fn a_failure_too_short_to_see_is_seen() {
    let (kernel, observer, process) = two(1);
    let failed = kernel.on_failed(observer, process);
    kernel.kill(process, KillKind::Reboot);
    kernel.boot(process);
    kernel.run_until(Time::from_secs(10.0)).unwrap();
    assert!(!kernel.is_failed(observer, process));
    kernel.block_on(failed).unwrap();
}

#[test]
fn one_who_begins_to_watch_while_news_of_a_return_is_on_its_way_learns_of_the_death() {
    let (kernel, observer, process) = two(1);
    kernel.set_network_config(one_millisecond());
    let (endpoint, _requests) = kernel.listen::<Echo>(process);
    let request = endpoint.request(observer, Echo(1));
    kernel.run_until(Time::from_secs(1.0)).unwrap();
    kernel.kill(process, KillKind::Reboot);
    kernel.boot(process);
    let failed = kernel.on_failed(observer, process);
    assert!(!kernel.is_failed(observer, process), "it looks alive");
    kernel.block_on(failed).unwrap();
    assert_eq!(
        kernel.block_on(request),
        Ok(Err(Disconnected::MaybeDelivered))
    );
    kernel
        .block_on(kernel.on_available(observer, process))
        .unwrap();
    assert_eq!(kernel.now(), Time::from_secs(1.001));
}

#[test]
fn one_who_returns_behind_a_clog_is_declared_failed_again() {
    let (kernel, observer, process) = two(1);
    kernel.set_network_config(one_millisecond());
    let failed = kernel.on_failed(observer, process);
    kernel.kill(process, KillKind::Reboot);
    kernel.block_on(failed).unwrap();
    kernel.clog_pair(ip(&kernel, observer), ip(&kernel, process), 60.0);
    kernel.boot(process);
    kernel
        .block_on(kernel.on_available(observer, process))
        .unwrap();
    let back = kernel.now();
    assert!(back < Time::from_secs(6.3), "its news gets through");
    kernel
        .block_on(kernel.on_failed(observer, process))
        .unwrap();
    assert!(kernel.now() - back < 6.3, "but no ping would");
}

#[test]
fn one_who_is_cut_off_while_it_is_away_has_failed_although_it_returns() {
    let (kernel, a, b) = two(1);
    let (address, failed) = (ip(&kernel, b), kernel.on_failed(a, b));
    kernel.reboot(b, KillKind::RebootProcess, 4.0);
    kernel.run_until(Time::from_secs(1.0)).unwrap();
    kernel.set_faults_enabled(true);
    kernel.cut_off(address);
    // It is back before its silence was long enough, and the news of that never comes.
    kernel.run_until(Time::from_secs(5.0)).unwrap();
    assert!(kernel.is_alive(b) && !kernel.is_failed(a, b));
    kernel.block_on(failed).unwrap();
    let noticed = kernel.now().as_secs();
    assert!((9.5..10.3).contains(&noticed), "{noticed}");
}

#[test]
fn a_process_that_died_long_before_it_is_first_looked_at_has_failed() {
    let (kernel, observer, process) = two(1);
    kernel.kill(process, KillKind::KillInstantly);
    kernel.run_until(Time::from_secs(6.3)).unwrap();
    assert!(kernel.is_failed(observer, process));
    kernel
        .block_on(kernel.on_failed(observer, process))
        .unwrap();
    assert!(
        kernel
            .block_on(kernel.on_available(observer, process))
            .is_err(),
        "and never returns"
    );
}

#[test]
fn a_process_that_died_lately_counts_as_failed_as_late_for_one_who_looks_only_now() {
    let (kernel, observer, process) = two(1);
    kernel.kill(process, KillKind::KillInstantly);
    kernel.run_until(Time::from_secs(4.0)).unwrap();
    assert!(!kernel.is_failed(observer, process));
    kernel
        .block_on(kernel.on_failed(observer, process))
        .unwrap();
    let noticed = kernel.now().as_secs();
    assert!((5.5..6.3).contains(&noticed), "{noticed}");
}

#[test]
fn one_who_dies_again_before_its_silence_was_noticed_is_timed_anew() {
    let (kernel, observer, process) = two(1);
    kernel.kill(process, KillKind::Reboot);
    let seen = kernel.on_failed(observer, process);
    kernel.run_until(Time::from_secs(5.0)).unwrap();
    kernel.boot(process);
    kernel.block_on(seen).unwrap();
    kernel.kill(process, KillKind::KillInstantly);
    kernel.run_until(Time::from_secs(10.0)).unwrap();
    assert!(!kernel.is_failed(observer, process));
    kernel.run_until(Time::from_secs(11.6)).unwrap();
    assert!(kernel.is_failed(observer, process));
}

#[test]
fn one_who_died_while_it_timed_a_silence_times_it_anew_in_its_next_life() {
    let (kernel, observer, process) = two(1);
    let (endpoint, _requests) = kernel.listen::<Echo>(process);
    kernel.kill(process, KillKind::KillInstantly);
    let given_up = endpoint.request_reliably(observer, Echo(1));
    kernel.reboot(observer, KillKind::Reboot, 0.1);
    kernel.run_until(Time::from_secs(1.0)).unwrap();
    drop(given_up);
    let result = kernel.block_on(endpoint.request_reliably(observer, Echo(2)));
    assert_eq!(result, Ok(Err(Disconnected::MaybeDelivered)));
    assert!(kernel.now() < Time::from_secs(6.3));
}

#[test]
fn a_process_silent_for_as_long_as_a_connection_and_four_seconds_has_failed_until_it_is_not() {
    for back in [false, true] {
        let (kernel, observer, process) = two(1);
        let failed = kernel.on_failed(observer, process);
        let (from, to) = if back {
            (process, observer)
        } else {
            (observer, process)
        };
        kernel.clog_pair(ip(&kernel, from), ip(&kernel, to), 5.4);
        kernel.run_until(Time::from_secs(10.0)).unwrap();
        assert!(!kernel.is_failed(observer, process));
        kernel.clog_pair(ip(&kernel, from), ip(&kernel, to), 8.0);
        kernel.block_on(failed).unwrap();
        let noticed = kernel.now().as_secs();
        assert!((15.5..16.3).contains(&noticed), "{noticed}");
        kernel
            .block_on(kernel.on_available(observer, process))
            .unwrap();
        assert_eq!(kernel.now(), Time::from_secs(18.0));
    }
}

#[test]
fn two_short_silences_are_not_a_failure_and_an_extended_one_lasts_until_its_end() {
    let (kernel, observer, process) = two(1);
    let (from, to) = (ip(&kernel, observer), ip(&kernel, process));
    let mut failed = Box::pin(kernel.on_failed(observer, process));
    kernel.clog_pair(from, to, 60.0);
    kernel.run_until(Time::from_secs(5.4)).unwrap();
    kernel.unclog_pair(from, to);
    kernel.clog_pair(from, to, 5.4);
    let result = kernel.block_on(kernel.timeout(9.6, &mut failed));
    assert_eq!(result, Ok(None));
    kernel.clog_pair(from, to, 8.0);
    kernel.run_until(Time::from_secs(22.0)).unwrap();
    assert!(kernel.is_failed(observer, process));
    kernel.clog_pair(from, to, 10.0);
    kernel
        .block_on(kernel.on_available(observer, process))
        .unwrap();
    assert_eq!(kernel.now(), Time::from_secs(32.0));
}

#[test]
fn a_silence_after_a_relief_is_counted_too() {
    let (kernel, observer, process) = two(1);
    let (from, to) = (ip(&kernel, observer), ip(&kernel, process));
    let failed = kernel.on_failed(observer, process);
    kernel.clog_pair(from, to, 60.0);
    kernel.run_until(Time::from_secs(1.0)).unwrap();
    kernel.unclog_pair(from, to);
    kernel.clog_pair(from, to, 60.0);
    kernel.block_on(failed).unwrap();
    assert!(kernel.now() > Time::from_secs(6.5) && kernel.now() < Time::from_secs(13.0));
}

#[test]
fn a_monitor_whose_request_was_given_up_serves_the_request_of_the_other_side() {
    let (kernel, a, b) = two(1);
    let (to_a, _a) = kernel.listen::<Echo>(a);
    let (to_b, _b) = kernel.listen::<Echo>(b);
    kernel.clog_pair(ip(&kernel, a), ip(&kernel, b), 60.0);
    let given_up = to_b.request(a, Echo(1));
    let request = to_a.request(b, Echo(1));
    drop(given_up);
    assert_eq!(
        kernel.block_on(request),
        Ok(Err(Disconnected::MaybeDelivered))
    );
    assert!(kernel.now() < Time::from_secs(2.3));
}

#[test]
fn a_clog_that_takes_effect_when_faults_are_switched_on_is_noticed() {
    let (kernel, a, b) = two(1);
    let (endpoint, _requests) = kernel.listen::<Echo>(b);
    let request = endpoint.request(a, Echo(1));
    kernel.set_faults_enabled(false);
    kernel.partition(ip(&kernel, a), ip(&kernel, b));
    kernel.run_until(Time::from_secs(10.0)).unwrap();
    kernel.set_faults_enabled(true);
    assert_eq!(
        kernel.block_on(request),
        Ok(Err(Disconnected::MaybeDelivered))
    );
    assert!(kernel.now() < Time::from_secs(12.3));
}

#[test]
fn a_death_is_noticed_even_if_the_connection_breaks() {
    for seed in 0..20 {
        let (kernel, observer, process) = two(seed);
        let failed = kernel.on_failed(observer, process);
        kernel.kill(process, KillKind::KillInstantly);
        kernel.close_connection(observer, process);
        assert_eq!(kernel.block_on(failed), Ok(()), "seed {seed}");
    }
}

#[test]
fn news_of_a_return_does_not_end_requests_to_the_next_incarnation() {
    let (kernel, observer, process) = two(1);
    kernel.set_boot(
        process,
        std::rc::Rc::new(|kernel, process| {
            let mut requests = kernel.listen_well_known::<Echo>(process, "echo");
            kernel
                .spawn(
                    process,
                    shaketable_kernel::Priority::DefaultEndpoint,
                    async move {
                        let (Echo(n), reply) = requests.recv().await;
                        reply.send(n);
                    },
                )
                .detach();
        }),
    );
    let _watched = kernel.on_failed(observer, process);
    kernel.set_network_config(one_millisecond());
    kernel.reboot(process, KillKind::Reboot, 0.0);
    kernel.run_until(Time::from_secs(0.0005)).unwrap();
    // The news is on its way.
    let endpoint = kernel.well_known_endpoint::<Echo>(process, "echo");
    assert_eq!(
        kernel.block_on(endpoint.request(observer, Echo(1))),
        Ok(Ok(1))
    );
}

#[test]
fn a_partition_is_a_failure_on_both_sides_until_it_is_healed() {
    let (kernel, a, b) = two(1);
    let (ip_a, ip_b) = (ip(&kernel, a), ip(&kernel, b));
    kernel.partition(ip_a, ip_b);
    // Watched only now, while the partition lasts.
    kernel.block_on(kernel.on_failed(a, b)).unwrap();
    kernel.block_on(kernel.on_failed(b, a)).unwrap();
    let noticed = kernel.now().as_secs();
    assert!((11.0..12.6).contains(&noticed), "{noticed}");
    kernel.call_at(Time::from_secs(20.0), move |kernel| kernel.heal(ip_a, ip_b));
    kernel.block_on(kernel.on_available(a, b)).unwrap();
    kernel.block_on(kernel.on_available(b, a)).unwrap();
    assert_eq!(kernel.now(), Time::from_secs(20.0));
}

#[test]
fn one_who_died_behind_a_partition_is_not_available_when_it_heals() {
    let (kernel, a, b) = two(1);
    let (ip_a, ip_b) = (ip(&kernel, a), ip(&kernel, b));
    kernel.partition(ip_a, ip_b);
    kernel.block_on(kernel.on_failed(a, b)).unwrap();
    kernel.kill(b, KillKind::Reboot);
    kernel.heal(ip_a, ip_b);
    kernel.run_until(Time::from_secs(30.0)).unwrap();
    assert!(kernel.is_failed(a, b));
    kernel.boot(b);
    kernel.block_on(kernel.on_available(a, b)).unwrap();
}

#[test]
fn watching_costs_nothing_while_all_is_well() {
    let (kernel, a, b) = two(1);
    let _failed = kernel.on_failed(a, b);
    let before = kernel.events();
    kernel.run_until(Time::from_secs(1e6)).unwrap();
    assert_eq!((kernel.events(), kernel.next_timer()), (before, None));
}

#[test]
fn a_process_never_loses_sight_of_itself() {
    let (kernel, a, _) = two(1);
    kernel.set_boot(a, std::rc::Rc::new(|_, _| {}));
    kernel.boot(a);
    let failed = kernel.on_failed(a, a);
    kernel.clog_interface(ip(&kernel, a), shaketable_kernel::ClogMode::All, 60.0);
    assert_eq!(kernel.block_on(kernel.timeout(10.0, failed)), Ok(None));
    // Nor does it remember a failure from before its own reboot.
    kernel.reboot(a, KillKind::Reboot, 100.0);
    kernel.run_until(Time::from_secs(200.0)).unwrap();
    assert!(!kernel.is_failed(a, a));
}
