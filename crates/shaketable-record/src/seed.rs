//! Seeds: 64 bits, however they are written.
//!
//! A seed must mean the same to both hosts and to every reader. fdbserver reads a leading zero as
//! octal and, before 8.0, cuts a seed of more than 32 bits silently, so whatever is not plainly a
//! seed is refused. Many readers of JSON, those in JavaScript first of all, keep a number as a
//! double, which has no room for more than 53 bits; and an integer of TOML is signed. So in files
//! and messages a seed is a number as long as every reader keeps it exactly
//! ([`EXACT_NUMBER_MAX`]), and beyond that a text of decimal digits. Both are read everywhere.

use serde::de::{self, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// The largest whole number that a double and all its neighbours keep apart: 2⁵³ − 1.
pub const EXACT_NUMBER_MAX: u64 = (1 << 53) - 1;

/// A seed. Displayed in decimal, as fdbserver prints it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seed(pub u64);

impl Seed {
    /// Whether it is a text rather than a number in files and messages.
    pub fn is_text(self) -> bool {
        self.0 > EXACT_NUMBER_MAX
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
    /// More than 64 bits.
    #[error("a seed has 64 bits, at most {}", u64::MAX)]
    TooLarge,
    /// `-1`.
    #[error("a seed is not negative: it is a number from 0 to {}", u64::MAX)]
    Negative,
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
            u64::from_str_radix(digits, radix)
                .map(Seed)
                .map_err(|_| SeedError::TooLarge)
        };
        let is_decimal = |text: &str| text.chars().all(|digit| digit.is_ascii_digit());
        if let Some(digits) = text.strip_prefix("0x").or(text.strip_prefix("0X")) {
            return parse(digits, 16);
        }
        // Eight digits of a hash are enough to tell commits apart, and a seed of 32 bits is one
        // that every host takes.
        if matches!(text.len(), 40 | 64) && text.chars().all(|digit| digit.is_ascii_hexdigit()) {
            return parse(&text[..8], 16);
        }
        if text.len() > 1 && text.starts_with('0') && is_decimal(text) {
            return Err(SeedError::LeadingZero);
        }
        if let Some(digits) = text.strip_prefix('-')
            && !digits.is_empty()
            && is_decimal(digits)
        {
            return Err(SeedError::Negative);
        }
        parse(text, 10)
    }
}

impl Serialize for Seed {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.is_text() {
            true => serializer.collect_str(self),
            false => serializer.serialize_u64(self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Seed {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Seed, D::Error> {
        deserializer.deserialize_any(NumberOrText)
    }
}

struct NumberOrText;

impl Visitor<'_> for NumberOrText {
    type Value = Seed;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a seed: a number from 0 to {}, or its digits", u64::MAX)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Seed, E> {
        Ok(Seed(number))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Seed, E> {
        u64::try_from(number)
            .map(Seed)
            .map_err(|_| E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Seed, E> {
        text.parse()
            .map_err(|_| E::invalid_value(Unexpected::Str(text), &self))
    }
}

/// For a field that is a plain number in memory and a [`Seed`] in files and messages:
/// `#[serde(with = "shaketable_record::seed::plain")]`.
pub mod plain {
    use super::{Deserialize, Deserializer, Seed, Serialize, Serializer};

    /// Writes it as a [`Seed`].
    pub fn serialize<S: Serializer>(seed: &u64, serializer: S) -> Result<S::Ok, S::Error> {
        Seed(*seed).serialize(serializer)
    }

    /// Reads it as a [`Seed`].
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
        Seed::deserialize(deserializer).map(|seed| seed.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_hexadecimal_and_commit_hashes_are_seeds() {
        assert_eq!("42".parse(), Ok(Seed(42)));
        assert_eq!("0".parse(), Ok(Seed(0)));
        assert_eq!("4294967295".parse(), Ok(Seed(u32::MAX.into())));
        assert_eq!("4294967296".parse(), Ok(Seed(1 << 32)));
        assert_eq!("18446744073709551615".parse(), Ok(Seed(u64::MAX)));
        assert_eq!("0xff".parse(), Ok(Seed(255)));
        assert_eq!("0xFFFFFFFFFFFFFFFF".parse(), Ok(Seed(u64::MAX)));
        let hash = "deadbeef00112233445566778899aabbccddeeff";
        assert_eq!(hash.parse(), Ok(Seed(0xdead_beef)));
    }

    #[test]
    fn what_could_be_misread_is_refused_in_a_sentence() {
        for text in ["18446744073709551616", "0x10000000000000000"] {
            assert_eq!(text.parse::<Seed>(), Err(SeedError::TooLarge), "{text}");
        }
        assert_eq!("010".parse::<Seed>(), Err(SeedError::LeadingZero));
        assert_eq!("-1".parse::<Seed>(), Err(SeedError::Negative));
        for text in ["", "abc", "-", "1.5", "12abc", "0x", "deadbeef", " 1", "+1"] {
            assert_eq!(text.parse::<Seed>(), Err(SeedError::NotASeed), "{text}");
        }
        assert_eq!(
            SeedError::TooLarge.to_string(),
            "a seed has 64 bits, at most 18446744073709551615"
        );
    }

    #[test]
    fn a_seed_is_a_number_where_every_reader_keeps_it_and_a_text_beyond() {
        let json = |seed| serde_json::to_string(&Seed(seed)).expect("JSON");
        assert_eq!(json(7), "7");
        assert_eq!(json(9_007_199_254_740_991), "9007199254740991");
        assert_eq!(json(9_007_199_254_740_992), "\"9007199254740992\"");
        assert_eq!(json(u64::MAX), "\"18446744073709551615\"");
        for seed in [0, 1 << 32, EXACT_NUMBER_MAX, EXACT_NUMBER_MAX + 1, u64::MAX] {
            let read: Seed = serde_json::from_str(&json(seed)).expect("a seed");
            assert_eq!(read, Seed(seed));
            // A number is read however large it is.
            let read: Seed = serde_json::from_str(&seed.to_string()).expect("a seed");
            assert_eq!(read, Seed(seed));
        }
    }

    #[test]
    fn what_is_no_seed_is_not_read_as_one() {
        for text in [
            "-1",
            "1.5",
            "\"\"",
            "\"-1\"",
            "null",
            "\"18446744073709551616\"",
        ] {
            let read: Result<Seed, _> = serde_json::from_str(text);
            let error = read.expect_err(text).to_string();
            assert!(error.contains("expected a seed"), "{text}: {error}");
        }
    }
}
