//! How hard a fault workload hits: as its options say, or less.
//!
//! A weaker workload does the same things, only less often or for a shorter time; it takes as long
//! as before. What happens once and is over (a killed role, a change of the configuration) has no
//! strength.

use super::FaultWorkload;

impl FaultWorkload {
    /// The same workload with a fraction of its strength, above 0 and at most 1.
    #[must_use]
    pub fn at_strength(mut self, strength: f64) -> FaultWorkload {
        assert!(
            strength > 0.0 && strength <= 1.0,
            "a strength is a fraction, not {strength}"
        );
        let fewer = |count: usize| (count as f64 * strength).ceil() as usize;
        match &mut self {
            FaultWorkload::Attrition(one) => one.machines_to_kill = fewer(one.machines_to_kill),
            FaultWorkload::ClogSingleConnection(one) => one.clog_duration *= strength,
            FaultWorkload::DiskFailureInjection(one) => {
                one.workers_to_throttle = fewer(one.workers_to_throttle);
                one.stall_period *= strength;
            }
            FaultWorkload::RandomClogging(one) => one.clogginess *= strength,
            FaultWorkload::RandomMoveKeys(one) => one.mean_delay /= strength,
            FaultWorkload::RandomRangeLock(one) => one.max_lock_duration *= strength,
            FaultWorkload::Rollback(one) => {
                one.mean_delay /= strength;
                one.clog_duration *= strength;
            }
            FaultWorkload::TriggerRecoveryLoop(one) => {
                one.num_recoveries = fewer(one.num_recoveries);
            }
            FaultWorkload::ChangeConfig(_)
            | FaultWorkload::ClogTlog(_)
            | FaultWorkload::TargetedKill(_) => {}
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::super::{FaultWorkload, Options};
    use shaketable_kernel::Stream;

    fn usual(name: &str) -> FaultWorkload {
        let mut none = |_: &str| None;
        FaultWorkload::read(name, &mut Options(&mut none), &Stream::new(1, "options"))
            .expect("a fault workload")
            .expect("no options are good options")
    }

    #[test]
    fn full_strength_changes_nothing() {
        for name in FaultWorkload::NAMES {
            assert_eq!(usual(name).at_strength(1.0), usual(name));
        }
    }

    #[test]
    fn a_weak_attack_still_is_one() {
        let FaultWorkload::Attrition(weak) = usual("Attrition").at_strength(0.1) else {
            panic!("it stays what it is")
        };
        assert_eq!(weak.machines_to_kill, 1);
        let FaultWorkload::Rollback(weak) = usual("Rollback").at_strength(0.5) else {
            panic!("it stays what it is")
        };
        assert_eq!((weak.mean_delay, weak.clog_duration), (40.0, 1.5));
        assert_eq!(weak.test_duration, 10.0);
    }
}
