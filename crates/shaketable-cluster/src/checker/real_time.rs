//! Real time: no client is told an older story than one that has been told already.
//!
//! A read version requested after a commit was acknowledged, to any client, must show that commit.
//! It must also be no older than any read version that had been handed out before, or a client
//! could see the past after another has seen the present.
//!
//! A client that is told 1021 is told that the fate of its commit is settled: it has happened, or
//! never will. So if it has happened, every read version requested afterwards must show it, just as
//! if it had been acknowledged.

use super::{Fates, Observation, Outcome, Violation};
use crate::error::Error;
use crate::proto::Version;
use shaketable_kernel::Time;

pub(super) fn verify(fates: &Fates, observations: &[Observation]) -> Result<(), Violation> {
    // What became known to any client, in order of time, with the highest version known by then.
    let mut known: Vec<(Time, Version)> = Vec::new();
    for observation in observations {
        known.extend(
            observation
                .read_version
                .map(|(_, received, version)| (received, version)),
        );
        let settled = match observation.outcome {
            Outcome::Committed(stamp) => Some(stamp),
            Outcome::Failed(Error::COMMIT_UNKNOWN_RESULT) => {
                fates.get(&observation.attempt).copied()
            }
            Outcome::ReadOnly | Outcome::Failed(_) => None,
        };
        known.extend(settled.map(|stamp| (observation.ended, stamp.version)));
    }
    known.sort();
    let mut highest: Vec<(Time, Version, Time)> = Vec::new();
    for (time, version) in known {
        let best = match highest.last() {
            Some((_, best, since)) if *best >= version => (time, *best, *since),
            _ => (time, version, time),
        };
        highest.push(best);
    }
    for observation in observations {
        let Some((asked, _, found)) = observation.read_version else {
            continue;
        };
        let before = highest.partition_point(|(time, ..)| *time < asked);
        if let Some((_, known, known_at)) = before.checked_sub(1).map(|last| highest[last])
            && found < known
        {
            let attempt = observation.attempt;
            return Err(Violation::StaleReadVersion {
                attempt,
                asked,
                found,
                known,
                known_at,
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::Versionstamp;

    fn observation(
        attempt: u64,
        asked: u64,
        version: Version,
        ended: u64,
        commit: Option<Version>,
    ) -> Observation {
        let outcome = match commit {
            Some(version) => Outcome::Committed(Versionstamp {
                version,
                batch_index: 0,
            }),
            None => Outcome::ReadOnly,
        };
        Observation {
            attempt,
            read_version: Some((
                Time::from_nanos(asked),
                Time::from_nanos(asked + 1),
                version,
            )),
            steps: Vec::new(),
            outcome,
            ended: Time::from_nanos(ended),
        }
    }

    #[test]
    fn a_version_asked_for_after_an_acknowledgement_must_show_it() {
        let writer = observation(1, 10, 100, 20, Some(200));
        let concurrent = observation(2, 20, 150, 30, None);
        let fresh = observation(3, 21, 200, 30, None);
        let fates = Fates::default();
        assert_eq!(verify(&fates, &[writer.clone(), concurrent, fresh]), Ok(()));
        let stale = observation(4, 21, 199, 30, None);
        assert!(matches!(
            verify(&fates, &[stale, writer]),
            Err(Violation::StaleReadVersion {
                attempt: 4,
                known: 200,
                found: 199,
                ..
            })
        ));
    }

    #[test]
    fn read_versions_do_not_go_back_either() {
        let early = observation(1, 10, 300, 50, None);
        let late = observation(2, 12, 299, 50, None);
        let fates = Fates::default();
        assert!(verify(&fates, &[early.clone(), late]).is_err());
        let concurrent = observation(3, 11, 299, 50, None);
        assert_eq!(verify(&fates, &[early, concurrent]), Ok(()));
    }

    #[test]
    fn an_unknown_result_must_not_come_true_later() {
        let mut doubtful = observation(1, 10, 100, 20, None);
        doubtful.outcome = Outcome::Failed(Error::COMMIT_UNKNOWN_RESULT);
        let later = observation(2, 21, 150, 30, None);
        let stamp = |version| Versionstamp {
            version,
            batch_index: 0,
        };
        let told = [doubtful, later];
        assert_eq!(verify(&Fates::default(), &told), Ok(()));
        assert_eq!(verify(&Fates::from([(1, stamp(150))]), &told), Ok(()));
        assert!(matches!(
            verify(&Fates::from([(1, stamp(151))]), &told),
            Err(Violation::StaleReadVersion { attempt: 2, .. })
        ));
    }
}
