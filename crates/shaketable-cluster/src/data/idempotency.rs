//! Where the idempotency ids of committed transactions are kept.
//!
//! A commit proxy stores the ids of a batch in rows under `\xff\x02/idmp/`: the key is the commit
//! version and the high byte of the batch index, the value lists ids, each with the low byte of its
//! batch index. A client that lost the reply to a commit looks for its id there.

use crate::proto::{Key, KeyValue, Value, Version, Versionstamp};
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Prefix of all rows.
pub const IDEMPOTENCY_ID_PREFIX: &[u8] = b"\xff\x02/idmp/";

/// FoundationDB 7.4 writes its protocol version in front of the value.
const PROTOCOL_VERSION: u64 = 0x0FDB_00B0_7400_0000;

/// The key of a row.
pub fn key(version: Version, batch_index_high: u8) -> Key {
    let mut key = BytesMut::from(IDEMPOTENCY_ID_PREFIX);
    key.put_i64(version);
    key.put_u8(batch_index_high);
    key.freeze()
}

/// The value of a row: the time it was written, in seconds, and the ids with the low bytes of their
/// batch indices.
pub fn value(seconds: i64, ids: &[(Bytes, u8)]) -> Value {
    let mut value = BytesMut::new();
    value.put_u64_le(PROTOCOL_VERSION);
    value.put_i64_le(seconds);
    for (id, batch_index_low) in ids {
        value.put_u8(id.len() as u8);
        value.extend_from_slice(id);
        value.put_u8(*batch_index_low);
    }
    value.freeze()
}

/// Returns the stamp of the transaction with that id, if the row contains it.
pub fn find(row: &KeyValue, id: &[u8]) -> Option<Versionstamp> {
    let mut key = row.key.strip_prefix(IDEMPOTENCY_ID_PREFIX)?;
    let version = key.try_get_i64().ok()?;
    let high = key.try_get_u8().ok()?;
    let mut value = row.value.get(16..)?;
    while let Ok(length) = value.try_get_u8() {
        let found = value.get(..length as usize)?;
        value.advance(length as usize);
        let low = value.try_get_u8().ok()?;
        if found == id {
            return Some(Versionstamp {
                version,
                batch_index: u16::from_be_bytes([high, low]),
            });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_leads_back_to_its_stamp() {
        let (one, two) = (
            Bytes::from_static(b"0123456789abcdef"),
            Bytes::from(vec![7; 255]),
        );
        let row = KeyValue {
            key: key(77, 2),
            value: value(5, &[(one.clone(), 1), (two.clone(), 9)]),
        };
        let stamp = |batch_index| {
            Some(Versionstamp {
                version: 77,
                batch_index,
            })
        };
        assert_eq!(find(&row, &one), stamp(0x201));
        assert_eq!(find(&row, &two), stamp(0x209));
        assert_eq!(find(&row, b"somebody else"), None);
    }
}
