//! Seeds: 32 bits, however they are written.
//!
//! fdbserver cuts a wider seed silently and reads a leading zero as octal. A seed must mean the
//! same to both hosts and to the reader, so whatever is not plainly a seed is refused.

use std::fmt;
use std::str::FromStr;

/// A seed. Displayed in decimal, as fdbserver prints it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seed(pub u32);

impl Seed {
    /// A random seed.
    pub fn random() -> Seed {
        let mut bytes = [0; 4];
        getrandom::fill(&mut bytes).expect("the operating system has random numbers");
        Seed(u32::from_le_bytes(bytes))
    }

    /// The seed this many steps later; after the last comes the first.
    pub fn plus(self, steps: u64) -> Seed {
        Seed(self.0.wrapping_add(steps as u32))
    }
}

impl fmt::Display for Seed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Why a text is not a seed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SeedError {
    /// More than 32 bits.
    #[error("a seed has 32 bits, at most 4294967295 (fdbserver would cut a larger one silently)")]
    TooLarge,
    /// `010`.
    #[error("a leading 0 is ambiguous: fdbserver reads it as octal")]
    LeadingZero,
    /// Something else.
    #[error(
        "expected a decimal number, a hexadecimal one with 0x, or a git commit hash of 40 digits"
    )]
    NotASeed,
}

impl FromStr for Seed {
    type Err = SeedError;

    fn from_str(text: &str) -> Result<Seed, SeedError> {
        let parse = |digits: &str, radix| {
            if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
                return Err(SeedError::NotASeed);
            }
            u32::from_str_radix(digits, radix)
                .map(Seed)
                .map_err(|_| SeedError::TooLarge)
        };
        if let Some(digits) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            return parse(digits, 16);
        }
        if matches!(text.len(), 40 | 64) && text.chars().all(|digit| digit.is_ascii_hexdigit()) {
            return parse(&text[..8], 16);
        }
        if text.len() > 1
            && text.starts_with('0')
            && text.chars().all(|digit| digit.is_ascii_digit())
        {
            return Err(SeedError::LeadingZero);
        }
        parse(text, 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_hexadecimal_and_commit_hashes_are_seeds() {
        assert_eq!("42".parse(), Ok(Seed(42)));
        assert_eq!("0".parse(), Ok(Seed(0)));
        assert_eq!("4294967295".parse(), Ok(Seed(u32::MAX)));
        assert_eq!("0xff".parse(), Ok(Seed(255)));
        let hash = "deadbeef00112233445566778899aabbccddeeff";
        assert_eq!(hash.parse(), Ok(Seed(0xdead_beef)));
    }

    #[test]
    fn what_fdbserver_would_misread_is_refused() {
        assert_eq!("4294967296".parse::<Seed>(), Err(SeedError::TooLarge));
        assert_eq!("0x100000000".parse::<Seed>(), Err(SeedError::TooLarge));
        assert_eq!("010".parse::<Seed>(), Err(SeedError::LeadingZero));
        for text in ["", "abc", "-1", "1.5", "12abc", "0x", "deadbeef", " 1"] {
            assert_eq!(text.parse::<Seed>(), Err(SeedError::NotASeed), "{text}");
        }
    }

    #[test]
    fn seeds_go_round() {
        assert_eq!(Seed(u32::MAX).plus(2), Seed(1));
    }
}
