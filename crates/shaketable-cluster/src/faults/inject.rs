//! The fault workloads that FoundationDB adds to a test automatically.

use super::{
    Attrition, DiskFailureInjection, FaultWorkload, RandomClogging, RandomMoveKeys,
    RandomRangeLock, Rollback,
};
use shaketable_kernel::Stream;

/// Draws the fault workloads to add to a test. `present` are those the test file names: each makes
/// another one of its kind less likely, and some keep all others away. `disabled` are names that
/// the file excludes.
pub fn inject(random: &Stream, present: &[FaultWorkload], disabled: &[&str]) -> Vec<FaultWorkload> {
    if present.iter().any(FaultWorkload::disables_injection) || disabled.contains(&"all") {
        return Vec::new();
    }
    let mut injected: Vec<FaultWorkload> = Vec::new();
    for (name, kind) in KINDS {
        // Each kind has its own draws, so that excluding one changes nothing about the others.
        let random = &Stream::new(random.next_u64(), name);
        if disabled.contains(name) {
            continue;
        }
        let named = present
            .iter()
            .filter(|workload| workload.name() == *name)
            .count();
        for count in named.. {
            if !random.chance((kind.chance)(count)) {
                break;
            }
            injected.push((kind.draw)(random));
        }
    }
    injected
}

struct Kind {
    /// The chance of one more, given how many there are.
    chance: fn(usize) -> f64,
    draw: fn(&Stream) -> FaultWorkload,
}

fn up_to_three(count: usize) -> f64 {
    if count < 3 {
        0.1 / (1 + count) as f64
    } else {
        0.0
    }
}

fn once(count: usize) -> f64 {
    if count == 0 { 0.1 } else { 0.0 }
}

const KINDS: &[(&str, Kind)] = &[
    (
        "Attrition",
        Kind {
            chance: |count| 1.0 / (2 + count) as f64,
            draw: attrition,
        },
    ),
    (
        "RandomClogging",
        Kind {
            chance: |count| 0.25 / (1 + count) as f64,
            draw: random_clogging,
        },
    ),
    (
        "Rollback",
        Kind {
            chance: up_to_three,
            draw: rollback,
        },
    ),
    (
        "DiskFailureInjection",
        Kind {
            chance: up_to_three,
            draw: disk_failure_injection,
        },
    ),
    (
        "RandomMoveKeys",
        Kind {
            chance: once,
            draw: random_move_keys,
        },
    ),
    (
        "RandomRangeLock",
        Kind {
            chance: once,
            draw: random_range_lock,
        },
    ),
];

fn attrition(_: &Stream) -> FaultWorkload {
    FaultWorkload::Attrition(Attrition {
        machines_to_kill: 2,
        machines_to_leave: 1,
        test_duration: 10.0,
        reboot: false,
        kill_dc: false,
        replacement: false,
        allow_fault_injection: true,
    })
}

fn random_clogging(random: &Stream) -> FaultWorkload {
    FaultWorkload::RandomClogging(RandomClogging {
        test_duration: 10.0,
        scale: random.uniform().max(0.1),
        clogginess: random.uniform().max(0.1),
        swizzle: random.chance(0.3),
        iterate: random.chance(0.5),
    })
}

fn rollback(random: &Stream) -> FaultWorkload {
    FaultWorkload::Rollback(Rollback {
        mean_delay: 20.0,
        clog_duration: 3.0,
        test_duration: 10.0,
        multiple: random.chance(0.5),
        enable_failures: random.chance(0.2),
    })
}

fn disk_failure_injection(_: &Stream) -> FaultWorkload {
    FaultWorkload::DiskFailureInjection(DiskFailureInjection {
        start_delay: 0.0,
        test_duration: 60.0,
        throttle_disk: false,
        workers_to_throttle: 3,
        stall_interval: 0.0,
        stall_period: 60.0,
        throttle_period: 60.0,
    })
}

fn random_move_keys(_: &Stream) -> FaultWorkload {
    FaultWorkload::RandomMoveKeys(RandomMoveKeys {
        test_duration: 10.0,
        mean_delay: 0.05,
        max_keyspace: 0.1,
    })
}

fn random_range_lock(_: &Stream) -> FaultWorkload {
    FaultWorkload::RandomRangeLock(RandomRangeLock {
        max_lock_duration: 60.0,
        max_start_delay: 300.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_tests_get_attrition_and_a_named_one_makes_it_rarer() {
        let count = |present: &[FaultWorkload]| {
            let with = |seed| {
                let injected = inject(&Stream::new(seed, "injection"), present, &[]);
                injected
                    .iter()
                    .any(|workload| workload.name() == "Attrition")
            };
            (0..1000).filter(|seed| with(*seed)).count()
        };
        assert!((450..550).contains(&count(&[])));
        let named = [attrition(&Stream::new(0, "x"))];
        assert!((280..390).contains(&count(&named)));
    }

    #[test]
    fn excluding_one_kind_leaves_the_others_as_they_were() {
        for seed in 0..200 {
            let draw = |disabled: &[&str]| {
                let mut drawn = inject(&Stream::new(seed, "injection"), &[], disabled);
                drawn.retain(|workload| workload.name() != "Attrition");
                drawn
            };
            assert_eq!(draw(&[]), draw(&["Attrition"]), "seed {seed}");
        }
    }

    #[test]
    fn a_test_that_changes_the_configuration_is_left_alone() {
        let present = FaultWorkload::ChangeConfig(super::super::ChangeConfig {
            min_delay_before_change: 0.0,
            max_delay_before_change: 0.0,
            config_mode: String::new(),
            coordinators: "auto".into(),
            coordinator_changes: 1,
        });
        for seed in 0..100 {
            let random = Stream::new(seed, "injection");
            assert!(inject(&random, std::slice::from_ref(&present), &[]).is_empty());
            assert!(inject(&random, &[], &["all"]).is_empty());
        }
    }
}
