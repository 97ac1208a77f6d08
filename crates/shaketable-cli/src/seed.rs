//! Seeds as the program chooses them: where a sweep begins if nothing is said, and what comes next.
//!
//! A seed is 64 bits wide, and how it is written is the same everywhere
//! ([`shaketable_host::Seed`]). One that the program draws has only 32: such a seed is shorter to
//! read and to copy, every host takes it, and there are more of them than anybody runs.

pub use shaketable_host::Seed;

/// A random seed of 32 bits.
pub fn random() -> Seed {
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("the operating system has random numbers");
    Seed(u32::from_le_bytes(bytes).into())
}

/// The seed this many steps after the first, on a host whose last seed is this one, all ones in
/// binary; after the last comes 0.
pub fn later(first: Seed, steps: u64, last: Seed) -> Seed {
    Seed(first.0.wrapping_add(steps) & last.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drawn_seed_is_one_that_every_host_takes() {
        assert!((0..100).all(|_| random() <= Seed(u32::MAX.into())));
    }

    #[test]
    fn seeds_go_round() {
        let (narrow, wide) = (Seed(u32::MAX.into()), Seed(u64::MAX));
        assert_eq!(later(narrow, 2, narrow), Seed(1));
        assert_eq!(later(narrow, 2, wide), Seed((1 << 32) + 1));
        assert_eq!(later(wide, 2, wide), Seed(1));
        assert_eq!(later(Seed(7), 3, narrow), Seed(10));
    }
}
