//! Which seeds a test tries.

use shaketable_host::Seed;
use std::ops::{Range, RangeFrom, RangeInclusive};

/// The seeds to try, in order: from a range, a list, or a single number.
///
/// ```
/// use shaketable::Seeds;
///
/// assert_eq!(Seeds::from(0..200), Seeds::Count { first: 0, count: 200 });
/// assert_eq!(Seeds::from([7, 11]), Seeds::List(vec![7, 11]));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Seeds {
    /// The default: the sixteen seeds from 0 on.
    #[default]
    Unsaid,
    /// A number of consecutive seeds.
    Count {
        /// The first seed.
        first: u64,
        /// How many.
        count: u64,
    },
    /// These.
    List(Vec<u64>),
}

impl From<Range<u64>> for Seeds {
    fn from(range: Range<u64>) -> Self {
        Seeds::Count {
            first: range.start,
            count: range.end.saturating_sub(range.start),
        }
    }
}

impl From<RangeInclusive<u64>> for Seeds {
    fn from(range: RangeInclusive<u64>) -> Self {
        let count = match range.is_empty() {
            true => 0,
            false => (range.end() - range.start()).saturating_add(1),
        };
        Seeds::Count {
            first: *range.start(),
            count,
        }
    }
}

/// All seeds from one on: for a simulation with a [budget](crate::Simulation::budget) of time.
impl From<RangeFrom<u64>> for Seeds {
    fn from(range: RangeFrom<u64>) -> Self {
        Seeds::endless(range.start)
    }
}

impl From<Vec<u64>> for Seeds {
    fn from(list: Vec<u64>) -> Self {
        Seeds::List(list)
    }
}

impl<const N: usize> From<[u64; N]> for Seeds {
    fn from(list: [u64; N]) -> Self {
        Seeds::List(list.to_vec())
    }
}

impl From<u64> for Seeds {
    fn from(seed: u64) -> Self {
        Seeds::List(vec![seed])
    }
}

impl Seeds {
    /// These, or `others` where this is the default.
    pub(super) fn or(self, others: &Seeds) -> Seeds {
        match (self, others) {
            (Seeds::Unsaid, others) => others.clone(),
            // `SHAKETABLE_SEEDS` sets how many; the test decides where to begin.
            (Seeds::Count { count, .. }, Seeds::Count { first, .. }) => Seeds::Count {
                first: *first,
                count,
            },
            (said, _) => said,
        }
    }

    fn endless(first: u64) -> Seeds {
        Seeds::Count {
            first,
            count: u64::MAX,
        }
    }

    /// As many as there is time for, unless they are a list.
    pub(super) fn without_end(self) -> Seeds {
        match self {
            Seeds::Unsaid => Seeds::endless(0),
            Seeds::Count { first, .. } => Seeds::endless(first),
            list @ Seeds::List(_) => list,
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        match self {
            Seeds::Unsaid => UNSAID_COUNT as usize,
            Seeds::Count { count, .. } => usize::try_from(*count).unwrap_or(usize::MAX),
            Seeds::List(list) => list.len(),
        }
    }

    /// The one at this place.
    pub(super) fn get(&self, index: usize) -> Option<u64> {
        let number = u64::try_from(index).ok().filter(|_| index < self.len())?;
        match self {
            Seeds::Unsaid => Some(number),
            // Seeds are numbers on a ring; a range that is too long goes on at 0.
            Seeds::Count { first, .. } => Some(first.wrapping_add(number)),
            Seeds::List(list) => list.get(index).copied(),
        }
    }
}

const UNSAID_COUNT: u64 = 16;

/// The seeds that the environment asks for.
pub(super) fn from_environment() -> Seeds {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    if let Some(text) = variable("SHAKETABLE_SEED") {
        return Seeds::List(vec![seed(&text)]);
    }
    match variable("SHAKETABLE_SEEDS") {
        Some(text) => Seeds::Count {
            first: 0,
            count: count(&text),
        },
        None => Seeds::Unsaid,
    }
}

/// How many seeds: at least one, because a test that tried none must not pass.
fn count(text: &str) -> u64 {
    let count = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    match count.unwrap_or_else(|error| {
        panic!(
            "SHAKETABLE_SEEDS: expected a number of seeds, decimal or as 0x2a, found `{text}`: {error}"
        )
    }) {
        0 => panic!(
            "SHAKETABLE_SEEDS: expected at least one seed, found `{text}`: unset it to try the test's own seeds"
        ),
        count => count,
    }
}

fn seed(text: &str) -> u64 {
    match text.parse::<Seed>() {
        Ok(seed) => seed.0,
        Err(error) => panic!("SHAKETABLE_SEED: `{text}` is not a seed: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(seeds: impl Into<Seeds>) -> Vec<u64> {
        let seeds = seeds.into();
        (0..seeds.len()).map_while(|n| seeds.get(n)).collect()
    }

    #[test]
    fn seeds_are_a_range_a_list_or_one() {
        assert_eq!(all(3..6), [3, 4, 5]);
        assert_eq!(all(3..=5), [3, 4, 5]);
        assert_eq!(Seeds::from(0..=u64::MAX).get(7), Some(7));
        assert_eq!(Seeds::from(100..).get(7), Some(107));
        assert_eq!(all([9, 1]), [9, 1]);
        assert_eq!(all(7), [7]);
        assert_eq!(all(u64::MAX..u64::MAX), [0_u64; 0]);
        assert_eq!(Seeds::default().len(), 16);
        assert_eq!(Seeds::default().get(16), None);
    }

    #[test]
    fn a_count_from_outside_keeps_the_first_seed_of_the_test() {
        let outside = Seeds::Count { first: 0, count: 2 };
        assert_eq!(all(outside.clone().or(&(100..900).into())), [100, 101]);
        assert_eq!(all(outside.or(&[5, 6, 7].into())), [0, 1]);
    }

    #[test]
    fn a_seed_has_64_bits() {
        let wide = u64::from(u32::MAX) + 1;
        assert_eq!(all(u64::from(u32::MAX)..wide + 1), [wide - 1, wide]);
        assert_eq!(all([u64::MAX]), [u64::MAX]);
        // The last one is followed by the first.
        assert_eq!(Seeds::from(u64::MAX..).get(1), Some(0));
    }

    #[test]
    fn the_environment_writes_a_seed_as_the_program_does() {
        assert_eq!(seed("0x2a"), 42);
        assert_eq!(seed("42"), 42);
        assert_eq!(seed("18446744073709551615"), u64::MAX);
        assert_eq!(count("0x10"), 16);
        assert_eq!(count("5000"), 5000);
    }

    #[test]
    #[should_panic(expected = "SHAKETABLE_SEEDS: expected at least one seed")]
    fn no_seed_at_all_is_refused() {
        count("0");
    }

    #[test]
    #[should_panic(expected = "SHAKETABLE_SEED: `nine` is not a seed: expected a decimal number")]
    fn what_is_no_number_is_refused() {
        seed("nine");
    }

    #[test]
    #[should_panic(expected = "at most 18446744073709551615")]
    fn a_seed_of_more_than_64_bits_is_refused() {
        seed("18446744073709551616");
    }

    #[test]
    #[should_panic(expected = "SHAKETABLE_SEED: `-7` is not a seed: a seed is not negative")]
    fn a_negative_seed_is_refused() {
        seed("-7");
    }
}
