//! Making a failure small: a pure search over candidates.
//!
//! A failing run has pieces: decisions of chance, clients, numbers in the options of a workload.
//! Most of them have nothing to do with the failure. This crate finds out which do, by asking about
//! candidates with fewer pieces whether they still fail. It knows neither what a piece is nor how
//! a candidate is run; the caller answers the questions, as many at a time as it can run side by
//! side.
//!
//! [`reduce_set`] is delta debugging in its counter-based form (Zhang et al., *Toward a Better
//! Understanding of Probabilistic Delta Debugging*, 2024). It removes chunks. How large a chunk is
//! follows from how likely a piece is believed to be needed: the size is chosen so that the
//! expected number of removed pieces is largest, and the belief grows with each round that removed
//! nothing. Classic delta debugging halves instead, and asks again about what it has already
//! learned. The search ends with chunks of one piece, and with the proof that the result is
//! *1-minimal*: without any single one of its pieces the failure is gone, and each of these
//! candidates has been asked about.
//!
//! [`reduce_number`] bisects, because most bugs that need three rounds need no more than three
//! rounds. A bug that fails with three and with five but not with four is not followed further.
//!
//! Both are deterministic, whatever the order in which the caller finds its answers.

#![forbid(unsafe_code)]

/// What the caller found out about a batch of candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The candidate of this index fails, and those before it do not.
    Fails(usize),
    /// None fails.
    AllPass,
    /// Time is up: ask no more.
    Stop,
}

/// A set of pieces that still fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reduced {
    /// The pieces that are left, in their order.
    pub kept: Vec<usize>,
    /// Whether each of them is known to be needed.
    pub is_minimal: bool,
}

/// How likely a piece is believed to be needed at first.
const FIRST_BELIEF: f64 = 0.1;
/// By how much the belief grows after a round: the chance that the chunk of the best size holds a
/// piece that is needed, inverted.
const GROWTH: f64 = 1.581_976_706_869_326_5;

/// Makes a set of pieces smaller, as long as what is left fails. `ask` is given candidates, each
/// the pieces to keep; never more than `batch` at a time.
///
/// The set of all `count` pieces is taken to fail.
pub fn reduce_set(
    count: usize,
    batch: usize,
    mut ask: impl FnMut(&[Vec<usize>]) -> Answer,
) -> Reduced {
    let mut kept: Vec<usize> = (0..count).collect();
    let stopped = |kept: Vec<usize>| Reduced {
        is_minimal: kept.is_empty(),
        kept,
    };
    if kept.is_empty() {
        return stopped(kept);
    }
    match ask(&[Vec::new()]) {
        Answer::Fails(_) => return stopped(Vec::new()),
        Answer::AllPass => {}
        Answer::Stop => return stopped(kept),
    }
    let mut belief = FIRST_BELIEF;
    loop {
        let size = chunk_size(belief).min(kept.len());
        let single = size == 1;
        // The last pieces first: what happened late had less time to matter.
        let mut chunks: Vec<Vec<usize>> = kept.rchunks(size).map(<[usize]>::to_vec).collect();
        // A chunk of everything is the empty candidate.
        chunks.retain(|chunk| chunk.len() < kept.len() || single && kept.len() > 1);
        let mut removed_any = false;
        while !chunks.is_empty() {
            let without = |chunk: &Vec<usize>| -> Vec<usize> {
                let pieces = kept.iter().filter(|piece| !chunk.contains(piece));
                pieces.copied().collect()
            };
            let asked = chunks.len().min(batch.max(1));
            let candidates: Vec<Vec<usize>> = chunks[..asked].iter().map(without).collect();
            match ask(&candidates) {
                Answer::Fails(index) => {
                    kept.clone_from(&candidates[index]);
                    removed_any = true;
                    chunks.drain(..=index);
                }
                Answer::AllPass => drop(chunks.drain(..asked)),
                Answer::Stop => return stopped(kept),
            }
        }
        if kept.len() <= 1 || single && !removed_any {
            return Reduced {
                kept,
                is_minimal: true,
            };
        }
        if !single {
            belief *= GROWTH;
        }
    }
}

/// The chunk size that removes most pieces on average, if each piece is needed with this chance.
fn chunk_size(belief: f64) -> usize {
    if belief >= 0.5 {
        return 1;
    }
    ((-1.0 / (1.0 - belief).ln()) as usize).max(1)
}

/// Makes a number smaller, as long as it fails: `failing` does, and the result is at least
/// `smallest`. `ask` is given at most `batch` numbers at a time, in ascending order.
pub fn reduce_number(
    smallest: u64,
    failing: u64,
    batch: usize,
    mut ask: impl FnMut(&[u64]) -> Answer,
) -> u64 {
    let (mut low, mut high) = (smallest, failing);
    let mut first = true;
    while low < high {
        let candidates = if std::mem::take(&mut first) {
            vec![low]
        } else {
            between(low, high, batch)
        };
        match ask(&candidates) {
            Answer::Fails(index) => {
                high = candidates[index];
                if index > 0 {
                    low = candidates[index - 1] + 1;
                }
            }
            Answer::AllPass => low = candidates[candidates.len() - 1] + 1,
            Answer::Stop => return high,
        }
    }
    high
}

/// At most `count` numbers that divide `low..high` evenly; at least one.
fn between(low: u64, high: u64, count: usize) -> Vec<u64> {
    let parts = count.max(1) as u64 + 1;
    let span = high - low;
    let mut numbers: Vec<u64> = (1..parts)
        .map(|part| low + (u128::from(span) * u128::from(part) / u128::from(parts)) as u64)
        .filter(|number| *number < high)
        .collect();
    numbers.dedup();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers with a predicate, and counts.
    fn oracle<'a, C>(
        fails: impl Fn(&C) -> bool + 'a,
        asked: &'a mut usize,
    ) -> impl FnMut(&[C]) -> Answer + 'a {
        move |candidates| {
            *asked += candidates.len();
            match candidates.iter().position(&fails) {
                Some(index) => Answer::Fails(index),
                None => Answer::AllPass,
            }
        }
    }

    fn needs(needed: &[usize]) -> impl Fn(&Vec<usize>) -> bool + '_ {
        move |candidate| needed.iter().all(|piece| candidate.contains(piece))
    }

    #[test]
    fn what_is_needed_stays_and_nothing_else() {
        for needed in [
            vec![],
            vec![0],
            vec![99],
            vec![3, 50],
            vec![0, 1, 2, 40, 98, 99],
        ] {
            for batch in [1, 2, 7] {
                let mut asked = 0;
                let reduced = reduce_set(100, batch, oracle(needs(&needed), &mut asked));
                assert_eq!(reduced.kept, needed);
                assert!(reduced.is_minimal);
                assert!(asked < 200, "{asked} questions for {needed:?}");
            }
        }
    }

    #[test]
    fn either_of_two_is_enough() {
        let fails = |candidate: &Vec<usize>| candidate.contains(&10) || candidate.contains(&20);
        let reduced = reduce_set(64, 2, oracle(fails, &mut 0));
        assert_eq!(reduced.kept.len(), 1);
    }

    #[test]
    fn the_result_is_1_minimal_even_if_failing_is_not_monotonic() {
        // A candidate fails if the sum of its pieces is a multiple of 7, and it has enough of them.
        let fails = |candidate: &Vec<usize>| {
            candidate.len() >= 3 && candidate.iter().sum::<usize>() % 7 == 0
        };
        let all: usize = (0..21).sum();
        assert_eq!(all % 7, 0);
        let reduced = reduce_set(21, 3, oracle(fails, &mut 0));
        assert!(fails(&reduced.kept) && reduced.is_minimal);
        for piece in &reduced.kept {
            let mut without = reduced.kept.clone();
            without.retain(|other| other != piece);
            assert!(!fails(&without), "{piece} of {:?}", reduced.kept);
        }
    }

    #[test]
    fn a_search_that_is_stopped_returns_what_it_has() {
        let mut asked = 0;
        let mut inner = oracle(needs(&[5]), &mut asked);
        let mut left = 4;
        let reduced = reduce_set(100, 1, |candidates| {
            left -= 1;
            if left == 0 {
                return Answer::Stop;
            }
            inner(candidates)
        });
        assert!(reduced.kept.contains(&5) && reduced.kept.len() < 100);
        assert!(!reduced.is_minimal);
    }

    #[test]
    fn nothing_needs_no_question() {
        let reduced = reduce_set(0, 4, |_| panic!("nothing to ask"));
        assert_eq!((reduced.kept, reduced.is_minimal), (vec![], true));
    }

    #[test]
    fn a_number_becomes_as_small_as_it_can_be() {
        for needed in [1, 2, 3, 17, 99, 100] {
            for batch in [1, 2, 5] {
                let mut asked = 0;
                let number = reduce_number(1, 100, batch, oracle(|n| *n >= needed, &mut asked));
                assert_eq!(number, needed);
                assert!(asked <= 20, "{asked} questions for {needed}");
            }
        }
        assert_eq!(reduce_number(3, 3, 2, |_| panic!("nothing to ask")), 3);
        assert_eq!(reduce_number(0, u64::MAX, 2, |_| Answer::Stop), u64::MAX);
    }
}
