//! Keys in readable form, as tuples where they are tuples, else as bytes; and the names of atomic
//! operations.
//!
//! `("cache", "value")` says more than `\x02cache\x00\x02value\x00`. A key counts as a tuple if all
//! of it can be read as elements of FoundationDB's tuple encoding; a key of another kind is very
//! rarely one by accident, because the encoding begins with a type code below `0x40` and ends
//! strings with a zero.

use std::fmt::Write;

/// The text of a key.
pub fn key_text(key: &[u8]) -> String {
    tuple_text(key).unwrap_or_else(|| format!("{}", BytesText(key)))
}

/// Longer text is cut: the rest of a key adds little.
const TEXT_CHARACTERS_MAX: usize = 120;

struct BytesText<'a>(&'a [u8]);

impl std::fmt::Display for BytesText<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = format!("\"{}\"", self.0.escape_ascii());
        match text.char_indices().nth(TEXT_CHARACTERS_MAX) {
            Some((cut, _)) => write!(f, "{}…\"", &text[..cut]),
            None => f.write_str(&text),
        }
    }
}

fn tuple_text(key: &[u8]) -> Option<String> {
    let mut texts = Vec::new();
    let mut rest = key;
    while !rest.is_empty() {
        let (text, after) = element_text(rest)?;
        texts.push(text);
        rest = after;
    }
    match texts.as_slice() {
        [] => None,
        [one] => Some(format!("({one},)")),
        many => Some(format!("({})", many.join(", "))),
    }
}

/// The text of the first element, and what follows it.
fn element_text(tuple: &[u8]) -> Option<(String, &[u8])> {
    let (code, rest) = tuple.split_first()?;
    match code {
        0x00 => Some(("nil".to_owned(), rest)),
        0x01 => {
            let (content, rest) = string(rest)?;
            Some((format!("b{}", BytesText(&content)), rest))
        }
        0x02 => {
            let (content, rest) = string(rest)?;
            let text = std::str::from_utf8(&content).ok()?;
            let shown: String = text.chars().take(TEXT_CHARACTERS_MAX).collect();
            let more = if shown.len() < text.len() { "…" } else { "" };
            Some((format!("{:?}", format!("{shown}{more}")), rest))
        }
        0x0c..=0x1c => {
            let length = usize::from(code.abs_diff(0x14));
            let (digits, rest) = rest.split_at_checked(length)?;
            let number = digits.iter().fold(0_i128, |number, digit| {
                number << 8 | i128::from(if *code < 0x14 { !digit } else { *digit })
            });
            let number = if *code < 0x14 { -number } else { number };
            Some((number.to_string(), rest))
        }
        0x21 => {
            let (bits, rest) = rest.split_at_checked(8)?;
            let bits = u64::from_be_bytes(bits.try_into().ok()?);
            // Numbers are encoded so that their bytes sort: the sign bit is flipped, or all bits
            // are.
            let positive = bits >> 63 == 1;
            let bits = if positive { bits ^ 1 << 63 } else { !bits };
            Some((format!("{:?}", f64::from_bits(bits)), rest))
        }
        0x26 => Some(("false".to_owned(), rest)),
        0x27 => Some(("true".to_owned(), rest)),
        0x30 => hexadecimal("uuid", rest, 16),
        0x33 => hexadecimal("versionstamp", rest, 12),
        _ => None,
    }
}

fn hexadecimal<'a>(name: &str, rest: &'a [u8], length: usize) -> Option<(String, &'a [u8])> {
    let (bytes, rest) = rest.split_at_checked(length)?;
    let mut text = format!("{name} ");
    for byte in bytes {
        let _ = write!(text, "{byte:02x}");
    }
    Some((text, rest))
}

/// The content of an encoded string whose code was read, and what follows it.
fn string(mut rest: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let mut content = Vec::new();
    loop {
        let (byte, after) = rest.split_first()?;
        rest = after;
        match (byte, rest.first()) {
            // A zero of the content is followed by a byte that ends no string.
            (0, Some(0xff)) => {
                content.push(0);
                rest = &rest[1..];
            }
            (0, _) => return Some((content, rest)),
            _ => content.push(*byte),
        }
    }
}

/// The name of an atomic operation, as in FoundationDB's list of options.
pub fn atomic_name(code: i32) -> String {
    let name = match code {
        2 => "add",
        6 | 19 => "bit_and",
        7 => "bit_or",
        8 => "bit_xor",
        9 => "append_if_fits",
        12 => "max",
        13 | 18 => "min",
        14 => "set_versionstamped_key",
        15 => "set_versionstamped_value",
        16 => "byte_min",
        17 => "byte_max",
        20 => "compare_and_clear",
        _ => return format!("operation {code}"),
    };
    name.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tuple_is_shown_as_one() {
        assert_eq!(
            key_text(b"\x02cache\x00\x02value\x00"),
            r#"("cache", "value")"#
        );
        assert_eq!(key_text(b"\x15\x2a"), "(42,)");
        assert_eq!(key_text(b"\x13\xfe\x14\x00\x27"), "(-1, 0, nil, true)");
        assert_eq!(key_text(b"\x01a\x00\xffb\x00"), r#"(b"a\x00b",)"#);
        let half = [&b"\x21"[..], &(0.5_f64.to_bits() ^ 1 << 63).to_be_bytes()].concat();
        assert_eq!(key_text(&half), "(0.5,)");
    }

    #[test]
    fn what_is_no_tuple_is_shown_as_bytes() {
        assert_eq!(key_text(b"counter"), r#""counter""#);
        assert_eq!(key_text(b""), r#""""#);
        assert_eq!(key_text(b"\xff/conf"), r#""\xff/conf""#);
        assert_eq!(key_text(b"\x02no end"), r#""\x02no end""#);
        assert_eq!(key_text(b"\x16\x01"), r#""\x16\x01""#, "cut short");
    }

    #[test]
    fn long_keys_are_cut() {
        let text = key_text(&[b'a'; 10_000]);
        assert!(
            text.ends_with("…\"") && text.chars().count() < 130,
            "{text}"
        );
        let text = key_text(&[b"\x02", &[b'a'; 10_000][..], b"\x00"].concat());
        assert!(text.chars().count() < 140, "{text}");
    }
}
