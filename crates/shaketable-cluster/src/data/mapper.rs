//! Mappers: how the row of an index becomes the range, or the key, of a record.
//!
//! A mapper is a packed tuple. A string element of the form `{K[2]}` or `{V[0]}` stands for that
//! element of the row's key or value, a final `{...}` asks for everything that begins with what
//! precedes it, `{{` and `}}` are literal braces, and anything else is taken as it is. Rows are
//! parsed only if the mapper needs them parsed.
//!
//! The errors come at the same moments as FoundationDB's. A mapper that is not a tuple, or has its
//! `{...}` in the wrong place, fails the read even if there is no row. A bad index fails it at the
//! first row that needs it.

use super::tuple;
use crate::error::Error;
use crate::proto::{Key, KeyRange, KeyValue};
use bytes::Bytes;

/// The largest number of rows in one secondary range.
pub const SECONDARY_ROWS_MAX: usize = 2000;
/// The byte limit of one secondary range.
pub const SECONDARY_BYTES_MAX: usize = 10_000_000;
/// The number of secondary reads that run at once; the byte limit of the whole read is checked only
/// between such batches.
pub const SECONDARY_READS_AT_ONCE: usize = 10;

/// A parsed mapper.
#[derive(Clone, Debug)]
pub struct Mapper {
    elements: Vec<Element>,
    is_range: bool,
}

#[derive(Clone, Debug)]
enum Element {
    /// Already encoded.
    Literal(Bytes),
    /// An element of the row's key; `None` if its index is not a number.
    Key(Option<usize>),
    /// An element of the row's value.
    Value(Option<usize>),
}

impl Mapper {
    /// Parses a packed mapper. Fails with `mapper_not_tuple`, or with `mapper_bad_range_decriptor`
    /// if `{...}` is not at its end.
    pub fn parse(packed: &[u8]) -> Result<Mapper, Error> {
        let mut mapper = Mapper {
            elements: Vec::new(),
            is_range: false,
        };
        let mut rest = tuple::elements(packed)
            .ok_or(Error::MAPPER_NOT_TUPLE)?
            .into_iter();
        while let Some(encoded) = rest.next() {
            let element = match tuple::string(encoded) {
                Some(text) if text == b"{...}" => {
                    if rest.next().is_some() {
                        return Err(Error::MAPPER_BAD_RANGE_DECRIPTOR);
                    }
                    mapper.is_range = true;
                    break;
                }
                Some(text) => parse_string(&text),
                None => None,
            };
            let as_it_is = || Element::Literal(Bytes::copy_from_slice(encoded));
            mapper.elements.push(element.unwrap_or_else(as_it_is));
        }
        Ok(mapper)
    }

    /// Whether a row becomes a range. Otherwise it becomes a key, whose value is read;
    /// FoundationDB's C interface cannot show that value.
    pub fn is_range(&self) -> bool {
        self.is_range
    }

    /// Returns what a row becomes: the prefix of a range, or a key. Fails with `mapper_bad_index`,
    /// `key_not_tuple` or `value_not_tuple`.
    pub fn map(&self, row: &KeyValue) -> Result<Key, Error> {
        let mut key = None;
        let mut value = None;
        let mut mapped = Vec::new();
        for element in &self.elements {
            match element {
                Element::Literal(encoded) => mapped.extend_from_slice(encoded),
                Element::Key(index) => {
                    mapped.extend_from_slice(pick(
                        &mut key,
                        &row.key,
                        *index,
                        Error::KEY_NOT_TUPLE,
                    )?);
                }
                Element::Value(index) => {
                    mapped.extend_from_slice(pick(
                        &mut value,
                        &row.value,
                        *index,
                        Error::VALUE_NOT_TUPLE,
                    )?);
                }
            }
        }
        Ok(mapped.into())
    }
}

/// All keys that begin with `prefix`. For a prefix that no key can come after, FoundationDB fails
/// an assertion; here the result is `internal_error`.
pub fn prefix_range(prefix: Key) -> Result<KeyRange, Error> {
    let last = prefix
        .iter()
        .rposition(|byte| *byte != 0xff)
        .ok_or(Error::INTERNAL_ERROR)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Ok(KeyRange {
        begin: prefix,
        end: end.into(),
    })
}

/// The byte limit for reading the index itself, when the whole read is limited to `limit_bytes`:
/// most of that is left for the records.
pub fn index_limit_bytes(limit_bytes: usize) -> usize {
    limit_bytes / 5
}

/// What a row of the index and the rows of its secondary range count against the byte limit of the
/// whole read.
pub fn mapped_bytes(index_row: &KeyValue, rows: &[KeyValue]) -> usize {
    let bytes = |row: &KeyValue| 24 + row.key.len() + row.value.len();
    bytes(index_row) + rows.iter().map(bytes).sum::<usize>()
}

/// Returns the meaning of a string element, or `None` if it is taken as it is. An element with
/// escaped braces becomes a byte string, even if it was text.
fn parse_string(text: &[u8]) -> Option<Element> {
    let (text, opening) = unescape(text, b"{{");
    let (text, closing) = unescape(&text, b"}}");
    if opening || closing {
        return Some(Element::Literal(tuple::encode_bytes(&text).into()));
    }
    let inner = text.strip_prefix(b"{")?.strip_suffix(b"]}")?;
    match inner {
        [b'K', b'[', index @ ..] if !index.is_empty() => Some(Element::Key(number(index))),
        [b'V', b'[', index @ ..] if !index.is_empty() => Some(Element::Value(number(index))),
        _ => None,
    }
}

/// Replaces each doubled brace by a single one, and returns whether there were any.
fn unescape(text: &[u8], doubled: &[u8; 2]) -> (Vec<u8>, bool) {
    let mut result = Vec::new();
    let mut rest = text;
    let mut found = false;
    while let Some((byte, after)) = rest.split_first() {
        result.push(*byte);
        rest = rest
            .strip_prefix(doubled)
            .inspect(|_| found = true)
            .unwrap_or(after);
    }
    (result, found)
}

/// Parses the number at the beginning of `text` as C does: blanks and a sign before it and anything
/// after it are tolerated. A negative index is treated like one that does not exist.
fn number(text: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(text).ok()?.trim_start();
    let digits = text.strip_prefix('+').unwrap_or(text);
    let end = digits
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(digits.len());
    digits[..end].parse().ok()
}

/// Element `index` of a row's key or value, which is parsed when first needed.
fn pick<'a>(
    parsed: &mut Option<Vec<&'a [u8]>>,
    packed: &'a [u8],
    index: Option<usize>,
    not_tuple: Error,
) -> Result<&'a [u8], Error> {
    let index = index.ok_or(Error::MAPPER_BAD_INDEX)?;
    if parsed.is_none() {
        *parsed = Some(tuple::elements(packed).ok_or(not_tuple)?);
    }
    let elements = parsed.as_ref().expect("parsed above");
    elements.get(index).copied().ok_or(Error::MAPPER_BAD_INDEX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(content: &str) -> Vec<u8> {
        [b"\x02", content.as_bytes(), b"\x00"].concat()
    }

    fn mapper(elements: &[&str]) -> Result<Mapper, Error> {
        Mapper::parse(&elements.iter().flat_map(|e| text(e)).collect::<Vec<u8>>())
    }

    fn row() -> KeyValue {
        let key = [text("index"), tuple::encode_integer(7)].concat();
        KeyValue {
            key: key.into(),
            value: text("v").into(),
        }
    }

    #[test]
    fn elements_of_key_and_value_go_where_the_mapper_says() {
        let mapper = mapper(&["rec", "{K[1]}", "{V[0]}", "{...}"]).unwrap();
        assert!(mapper.is_range());
        let expected = [text("rec"), tuple::encode_integer(7), text("v")].concat();
        assert_eq!(mapper.map(&row()).unwrap(), expected);
    }

    #[test]
    fn doubled_braces_mean_themselves_and_make_a_byte_string() {
        let mapper = mapper(&["{{K[1]}}", "{{...}}"]).unwrap();
        assert!(!mapper.is_range());
        let expected = [
            tuple::encode_bytes(b"{K[1]}"),
            tuple::encode_bytes(b"{...}"),
        ]
        .concat();
        assert_eq!(mapper.map(&row()).unwrap(), expected);
    }

    #[test]
    fn what_has_not_the_form_of_a_reference_is_taken_as_it_is() {
        for literal in ["", "{K[]}", "{K1}", "K[1]", "{k[1]}", "{...} "] {
            assert_eq!(
                mapper(&[literal]).unwrap().map(&row()).unwrap(),
                text(literal),
                "{literal}"
            );
        }
        let number = Bytes::from(tuple::encode_integer(5));
        assert_eq!(Mapper::parse(&number).unwrap().map(&row()).unwrap(), number);
    }

    #[test]
    fn a_bad_index_fails_only_when_a_row_meets_it() {
        for bad in [
            "{K[2]}",
            "{K[x]}",
            "{K[-1]}",
            "{K[99999999999999999999]}",
            "{V[1]}",
        ] {
            let mapper = mapper(&[bad, "{...}"]).unwrap();
            assert_eq!(mapper.map(&row()), Err(Error::MAPPER_BAD_INDEX), "{bad}");
        }
        let lenient = mapper(&["{K[ +1x]}"]).unwrap();
        assert_eq!(lenient.map(&row()).unwrap(), tuple::encode_integer(7));
    }

    #[test]
    fn a_mapper_must_be_a_tuple_with_its_range_at_the_end() {
        assert_eq!(
            Mapper::parse(b"\xff\xfe").err(),
            Some(Error::MAPPER_NOT_TUPLE)
        );
        assert_eq!(
            mapper(&["{...}", "x"]).err(),
            Some(Error::MAPPER_BAD_RANGE_DECRIPTOR)
        );
        assert_eq!(Mapper::parse(b"").unwrap().map(&row()).unwrap(), "");
    }

    #[test]
    fn rows_are_parsed_only_if_needed() {
        let not_tuples = KeyValue {
            key: "key".into(),
            value: "value".into(),
        };
        assert_eq!(mapper(&["x"]).unwrap().map(&not_tuples).unwrap(), text("x"));
        assert_eq!(
            mapper(&["{K[0]}"]).unwrap().map(&not_tuples),
            Err(Error::KEY_NOT_TUPLE)
        );
        assert_eq!(
            mapper(&["{V[0]}"]).unwrap().map(&not_tuples),
            Err(Error::VALUE_NOT_TUPLE)
        );
        assert_eq!(
            mapper(&["{K[x]}"]).unwrap().map(&not_tuples),
            Err(Error::MAPPER_BAD_INDEX)
        );
    }

    #[test]
    fn a_prefix_covers_exactly_the_keys_that_begin_with_it() {
        let range = prefix_range(Bytes::from_static(b"a\xff\xff")).unwrap();
        assert_eq!(
            (&range.begin[..], &range.end[..]),
            (&b"a\xff\xff"[..], &b"b"[..])
        );
        assert_eq!(
            prefix_range(Bytes::from_static(b"\xff")),
            Err(Error::INTERNAL_ERROR)
        );
        assert_eq!(prefix_range(Bytes::new()), Err(Error::INTERNAL_ERROR));
    }
}
