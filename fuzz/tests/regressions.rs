//! What random inputs have found, and a few inputs that are the same every time.

use arbtest::arbtest;
use shaketable_fuzz::{TARGETS, metric, test_file, trace};
use shaketable_host::trace::{Event, Severity};

#[test]
fn every_target_holds_for_inputs_that_are_the_same_every_time() {
    for target in TARGETS {
        for number in 0..20 {
            let bytes = (target.bytes_max >> (number % 4)) as u64;
            arbtest(target.run).seed((number << 32) | bytes).run();
        }
    }
}

#[test]
fn a_metric_keeps_its_decimal_point_when_it_is_asked_to() {
    metric::check("%#20.e%%", -1_715_102.682);
    metric::check("%#.0f", 7.0);
}

#[test]
fn an_event_that_is_too_large_is_cut_between_two_characters() {
    for shift in 0..3 {
        let name = "x".repeat(shift) + &"€".repeat(1500);
        trace::check(Event::new(Severity::Info, 1.0, name));
    }
}

#[test]
fn the_time_of_an_event_survives_a_journey() {
    trace::check(Event::new(Severity::Info, 109_844_189.142_857_15, "Late"));
}

#[test]
fn a_test_file_of_nothing_is_refused_in_words() {
    for text in ["", "\0", "[[test]]", "[[test]]\r\n[[test.workload]]\r\n"] {
        test_file::check(text);
    }
}
