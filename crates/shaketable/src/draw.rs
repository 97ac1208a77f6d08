//! Decisions that a seed makes without a draw from its random generator.
//!
//! `rnd()` is one stream: one more draw shifts all that follow. What must not shift anything, such
//! as whether a place in the code is buggified, is computed from the number that all clients share
//! and a name instead.

/// A number that depends only on the seed and these words.
pub(crate) fn number(shared_random_number: i64, name: &str, words: &[u64]) -> u64 {
    let mut state = mix(shared_random_number as u64);
    for chunk in name.as_bytes().chunks(8) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        state = mix(state ^ u64::from_le_bytes(bytes));
    }
    state = mix(state ^ name.len() as u64);
    words.iter().fold(state, |state, word| mix(state ^ word))
}

/// Whether something of this probability happens.
pub(crate) fn chance(probability: f64, number: u64) -> bool {
    // 53 bits are what an f64 holds exactly.
    ((number >> 11) as f64) / ((1_u64 << 53) as f64) < probability
}

/// The finaliser of splitmix64, after its increment.
fn mix(word: u64) -> u64 {
    let mut z = word.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_names_and_words_all_count() {
        let numbers = [
            number(1, "a", &[]),
            number(2, "a", &[]),
            number(1, "b", &[]),
            number(1, "a", &[0]),
            number(1, "a", &[0, 0]),
            number(1, "a\0", &[]),
        ];
        for (index, one) in numbers.iter().enumerate() {
            assert!(!numbers[index + 1..].contains(one), "{numbers:?}");
        }
        assert_eq!(number(1, "a", &[3]), number(1, "a", &[3]));
    }

    #[test]
    fn a_quarter_is_a_quarter() {
        let hits = (0..10_000).filter(|seed| chance(0.25, number(*seed, "place", &[])));
        let hits = hits.count();
        assert!((2_300..2_700).contains(&hits), "{hits}");
        assert!(!chance(0.0, 0) && chance(1.0, u64::MAX));
    }
}
