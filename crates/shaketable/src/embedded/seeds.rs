//! Which seeds a test tries.

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
        first: u32,
        /// How many.
        count: u32,
    },
    /// These.
    List(Vec<u32>),
}

impl From<Range<u32>> for Seeds {
    fn from(range: Range<u32>) -> Self {
        Seeds::Count {
            first: range.start,
            count: range.end.saturating_sub(range.start),
        }
    }
}

impl From<RangeInclusive<u32>> for Seeds {
    fn from(range: RangeInclusive<u32>) -> Self {
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
impl From<RangeFrom<u32>> for Seeds {
    fn from(range: RangeFrom<u32>) -> Self {
        Seeds::endless(range.start)
    }
}

impl From<Vec<u32>> for Seeds {
    fn from(list: Vec<u32>) -> Self {
        Seeds::List(list)
    }
}

impl<const N: usize> From<[u32; N]> for Seeds {
    fn from(list: [u32; N]) -> Self {
        Seeds::List(list.to_vec())
    }
}

impl From<u32> for Seeds {
    fn from(seed: u32) -> Self {
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

    fn endless(first: u32) -> Seeds {
        Seeds::Count {
            first,
            count: u32::MAX,
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
            Seeds::Count { count, .. } => *count as usize,
            Seeds::List(list) => list.len(),
        }
    }

    /// The one at this place.
    pub(super) fn get(&self, index: usize) -> Option<u32> {
        let number = u32::try_from(index).ok().filter(|_| index < self.len())?;
        match self {
            Seeds::Unsaid => Some(number),
            // Seeds are numbers on a ring; a range that is too long goes on at 0.
            Seeds::Count { first, .. } => Some(first.wrapping_add(number)),
            Seeds::List(list) => list.get(index).copied(),
        }
    }
}

const UNSAID_COUNT: u32 = 16;

/// The seeds that the environment asks for.
pub(super) fn from_environment() -> Seeds {
    let variable = |name| std::env::var(name).ok().filter(|text| !text.is_empty());
    if let Some(text) = variable("SHAKETABLE_SEED") {
        return Seeds::List(vec![parse("SHAKETABLE_SEED", &text)]);
    }
    match variable("SHAKETABLE_SEEDS") {
        Some(text) => Seeds::Count {
            first: 0,
            count: count("SHAKETABLE_SEEDS", &text),
        },
        None => Seeds::Unsaid,
    }
}

/// How many seeds: at least one, because a test that tried none must not pass.
fn count(variable: &str, text: &str) -> u32 {
    match parse(variable, text) {
        0 => panic!(
            "{variable}: expected at least one seed, found `{text}`: unset it to try the test's own seeds"
        ),
        count => count,
    }
}

fn parse(variable: &str, text: &str) -> u32 {
    let number = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|error| {
        panic!(
            "{variable}: expected a number of 32 bits, decimal or as 0x2a, found `{text}`: {error}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(seeds: impl Into<Seeds>) -> Vec<u32> {
        let seeds = seeds.into();
        (0..seeds.len()).map_while(|n| seeds.get(n)).collect()
    }

    #[test]
    fn seeds_are_a_range_a_list_or_one() {
        assert_eq!(all(3..6), [3, 4, 5]);
        assert_eq!(all(3..=5), [3, 4, 5]);
        assert_eq!(Seeds::from(0..=u32::MAX).get(7), Some(7));
        assert_eq!(Seeds::from(100..).get(7), Some(107));
        assert_eq!(all([9, 1]), [9, 1]);
        assert_eq!(all(7), [7]);
        assert_eq!(all(u32::MAX..u32::MAX), [0_u32; 0]);
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
    fn numbers_may_be_hexadecimal() {
        assert_eq!(parse("SHAKETABLE_SEED", "0x2a"), 42);
        assert_eq!(parse("SHAKETABLE_SEED", "42"), 42);
    }

    #[test]
    #[should_panic(expected = "SHAKETABLE_SEEDS: expected at least one seed")]
    fn no_seed_at_all_is_refused() {
        count("SHAKETABLE_SEEDS", "0");
    }

    #[test]
    #[should_panic(expected = "SHAKETABLE_SEED: expected a number of 32 bits")]
    fn what_is_no_number_is_refused() {
        parse("SHAKETABLE_SEED", "nine");
    }
}
