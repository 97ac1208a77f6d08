//! How much one range read may return.
//!
//! The C API describes this with a row limit, a byte target and a streaming mode; inside the client
//! it is a [`RangeLimits`], which counts down as rows are taken. The byte limit is soft: it stops a
//! read only after `min_rows` rows. The client counts 8 bytes per row on top of key and value; the
//! storage server counts 24.

use crate::error::Error;
use crate::proto::KeyValue;

/// The remaining limits of a range read. `None` is unlimited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLimits {
    /// Rows that may still be returned. Negative values are kept: the read refuses them, not this
    /// type.
    pub rows: Option<i32>,
    /// Rows that must be returned before the byte limit counts.
    pub min_rows: i32,
    /// Bytes that may still be returned.
    pub bytes: Option<i32>,
}

/// A storage server's reply ends with the row that reaches this many bytes, and has at most this
/// many rows.
pub(crate) const REPLY_BYTES_MAX: i32 = 80_000;
/// Byte targets of the streaming modes EXACT, SMALL, MEDIUM, LARGE and SERIAL.
const MODE_BYTES: [Option<i32>; 5] = [
    None,
    Some(256),
    Some(1000),
    Some(4096),
    Some(REPLY_BYTES_MAX),
];
/// Byte targets of the first iterations of streaming mode ITERATOR.
const ITERATION_BYTES: [i32; 10] = [
    4096, 6144, 9216, 13_824, 20_736, 31_104, 46_656, 69_984, 80_000, 120_000,
];

impl RangeLimits {
    /// Converts the parameters of `fdb_transaction_get_range`. The caller returns the errors in a
    /// future that is ready at once: 2210 for EXACT without any limit, 2000 for an unknown mode.
    pub fn from_parameters(
        limit: i32,
        target_bytes: i32,
        mode: i32,
        iteration: i32,
    ) -> Result<RangeLimits, Error> {
        let unlimited = |n: i32| if n == 0 || n == -1 { None } else { Some(n) };
        let (rows, target) = (unlimited(limit), unlimited(target_bytes));
        if rows.is_none() && target.is_none() && mode == 0 {
            return Err(Error::EXACT_MODE_WITHOUT_LIMITS);
        }
        let mode_bytes = match mode {
            -2 => MODE_BYTES[4],
            -1 if iteration > 0 => Some(ITERATION_BYTES[(iteration as usize).min(10) - 1]),
            0..=4 => MODE_BYTES[mode as usize],
            _ => return Err(Error::CLIENT_INVALID_OPERATION),
        };
        let bytes = match (target, mode_bytes) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        Ok(RangeLimits {
            rows,
            min_rows: 1,
            bytes,
        })
    }

    /// A limit of `rows` rows and no byte limit.
    pub fn rows(rows: i32) -> RangeLimits {
        RangeLimits {
            rows: Some(rows),
            min_rows: 1,
            bytes: None,
        }
    }

    /// Whether nothing more may be returned.
    pub fn is_reached(&self) -> bool {
        self.rows == Some(0) || (self.bytes == Some(0) && self.min_rows == 0)
    }

    /// Whether the numbers make sense.
    pub fn is_valid(&self) -> bool {
        self.rows.is_none_or(|n| n >= self.min_rows)
            && self.bytes.is_none_or(|n| n >= 0)
            && self.min_rows >= 0
    }

    /// Whether a byte limit applies and there are enough rows for it to stop the read.
    pub fn has_satisfied_min_rows(&self) -> bool {
        self.bytes.is_some() && self.min_rows == 0
    }

    /// Counts one row against the limits.
    pub fn decrement(&mut self, row: &KeyValue) {
        self.min_rows = (self.min_rows - 1).max(0);
        if let Some(rows) = &mut self.rows {
            *rows -= 1;
        }
        if let Some(bytes) = &mut self.bytes {
            *bytes = (*bytes - 8 - (row.key.len() + row.value.len()) as i32).max(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_mode_needs_a_limit_and_zero_or_minus_one_is_none() {
        let refused = Err(Error::EXACT_MODE_WITHOUT_LIMITS);
        assert_eq!(RangeLimits::from_parameters(0, 0, 0, 1), refused);
        assert_eq!(RangeLimits::from_parameters(-1, -1, 0, 1), refused);
        assert_eq!(
            RangeLimits::from_parameters(5, 0, 0, 1),
            Ok(RangeLimits::rows(5))
        );
    }

    #[test]
    fn the_smaller_of_target_and_mode_counts() {
        let bytes = |target, mode, iteration| {
            RangeLimits::from_parameters(0, target, mode, iteration).map(|l| l.bytes)
        };
        assert_eq!(bytes(0, -2, 1), Ok(Some(80_000)));
        assert_eq!(bytes(100, 1, 1), Ok(Some(100)));
        assert_eq!(bytes(1000, 1, 1), Ok(Some(256)));
        assert_eq!(bytes(0, -1, 3), Ok(Some(9216)));
        assert_eq!(bytes(0, -1, 99), Ok(Some(120_000)));
        assert_eq!(bytes(0, -1, 0), Err(Error::CLIENT_INVALID_OPERATION));
        assert_eq!(bytes(0, 5, 1), Err(Error::CLIENT_INVALID_OPERATION));
    }

    #[test]
    fn a_byte_limit_lets_one_row_through() {
        let mut limits = RangeLimits {
            rows: None,
            min_rows: 1,
            bytes: Some(1),
        };
        assert!(!limits.is_reached());
        limits.decrement(&KeyValue {
            key: "k".into(),
            value: "v".into(),
        });
        assert!(limits.is_reached());
    }
}
