//! Keys and values in a record: short ones whole, long ones as their beginning and their length.
//!
//! In a file they are text, as fdbcli prints them: what can be printed stands for itself,
//! everything else is `\x` and two digits, a backslash is doubled. A shortened one is an object
//! with `start` and `length`.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A key or a value.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Bytes {
    /// All of it, or its beginning.
    kept: Box<[u8]>,
    /// How many bytes there were.
    length: usize,
}

impl Bytes {
    /// All of it.
    pub fn whole(bytes: &[u8]) -> Bytes {
        Bytes {
            kept: bytes.into(),
            length: bytes.len(),
        }
    }

    /// At most `max` bytes of it, and how many there were.
    pub fn shortened(bytes: &[u8], max: usize) -> Bytes {
        Bytes {
            kept: bytes[..bytes.len().min(max)].into(),
            length: bytes.len(),
        }
    }

    /// Nothing of it but how many bytes there were.
    pub fn hidden(&self) -> Bytes {
        Bytes {
            kept: Box::default(),
            length: self.length,
        }
    }

    /// What was kept: everything if [`Bytes::is_whole`].
    pub fn kept(&self) -> &[u8] {
        &self.kept
    }

    /// How many bytes there were.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// Whether all of it was kept.
    pub fn is_whole(&self) -> bool {
        self.kept.len() == self.length
    }
}

impl std::fmt::Debug for Bytes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}", self.kept.escape_ascii())?;
        match self.is_whole() {
            true => write!(f, "\""),
            false => write!(f, "…\" ({} bytes)", self.length),
        }
    }
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Form {
    Whole(String),
    Shortened { start: String, length: usize },
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let text = escaped(&self.kept);
        let form = match self.is_whole() {
            true => Form::Whole(text),
            false => Form::Shortened {
                start: text,
                length: self.length,
            },
        };
        form.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        let (text, length) = match Form::deserialize(deserializer)? {
            Form::Whole(text) => (text, None),
            Form::Shortened { start, length } => (start, Some(length)),
        };
        let kept = unescaped(&text)
            .ok_or_else(|| serde::de::Error::custom(format!("{text:?} is not escaped as bytes")))?;
        let length = length.unwrap_or(kept.len());
        if length < kept.len() {
            return Err(serde::de::Error::custom(
                "bytes are longer than their length",
            ));
        }
        Ok(Bytes {
            kept: kept.into(),
            length,
        })
    }
}

fn escaped(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    /// How long the escape of a byte is.
    const ESCAPE: usize = 4;
    // A record has millions of these: room for the longest text is cheaper than room that grows.
    let mut text = String::with_capacity(ESCAPE * bytes.len());
    let mut rest = bytes;
    while !rest.is_empty() {
        let is_plain = |byte: &u8| (b' '..=b'~').contains(byte) && *byte != b'\\';
        let plain = rest.iter().position(|byte| !is_plain(byte));
        let (plain, after) = rest.split_at(plain.unwrap_or(rest.len()));
        text.push_str(std::str::from_utf8(plain).expect("plain bytes are ASCII"));
        rest = match after.split_first() {
            Some((b'\\', after)) => {
                text.push_str("\\\\");
                after
            }
            Some((byte, after)) => {
                text.push_str("\\x");
                text.push(char::from(DIGITS[usize::from(byte >> 4)]));
                text.push(char::from(DIGITS[usize::from(byte & 15)]));
                after
            }
            None => break,
        };
    }
    text
}

fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next()? {
            b'\\' => bytes.push(b'\\'),
            b'x' => {
                let mut digit = || char::from(rest.next()?).to_digit(16);
                bytes.push((digit()? << 4 | digit()?) as u8);
            }
            _ => return None,
        }
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_in_a_file_and_come_back() {
        let every: Vec<u8> = (0..=255).collect();
        for bytes in [&b""[..], b"key", b"\x02a\\b\x00\xff", &every] {
            let text = serde_json::to_string(&Bytes::whole(bytes)).unwrap();
            assert_eq!(
                serde_json::from_str::<Bytes>(&text).unwrap(),
                Bytes::whole(bytes)
            );
        }
        let text = serde_json::to_string(&Bytes::whole(b"\x15*\\")).unwrap();
        assert_eq!(text, r#""\\x15*\\\\""#);
    }

    #[test]
    fn long_bytes_keep_their_beginning_and_their_length() {
        let long = Bytes::shortened(&[b'a'; 1000], 3);
        let text = serde_json::to_string(&long).unwrap();
        assert_eq!(text, r#"{"start":"aaa","length":1000}"#);
        let back: Bytes = serde_json::from_str(&text).unwrap();
        assert_eq!((back.kept(), back.len()), (&b"aaa"[..], 1000));
        assert!(!back.is_whole());
        let hidden = back.hidden();
        assert_eq!((hidden.kept(), hidden.len()), (&b""[..], 1000));
    }

    #[test]
    fn what_is_no_escape_is_an_error() {
        for text in [r#""\\q""#, r#""\\x1""#, r#"{"start":"abc","length":1}"#] {
            assert!(serde_json::from_str::<Bytes>(text).is_err(), "{text}");
        }
    }
}
