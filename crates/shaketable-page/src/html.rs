//! The page as one file: markup, style, script and data put together.

use crate::cluster::run_end;
use crate::curve::Curve;
use crate::document::Document;
use sha2::{Digest, Sha256};
use shaketable_explain::Explanation;
use shaketable_record::Record;
use std::io::{self, BufWriter, Write};

const SKELETON: &str = include_str!("assets/page.html");
const STYLE: &str = include_str!("assets/page.css");
/// In the order in which they build on each other. They share one scope.
const SCRIPTS: [&str; 9] = [
    include_str!("assets/model.js"),
    include_str!("assets/view.js"),
    include_str!("assets/draw.js"),
    include_str!("assets/search.js"),
    include_str!("assets/panel.js"),
    include_str!("assets/sidebar.js"),
    include_str!("assets/table.js"),
    include_str!("assets/input.js"),
    include_str!("assets/main.js"),
];

/// Returns a page that shows the run and what explains it, as one self-contained HTML file.
pub fn html(record: &Record, explanation: &Explanation) -> String {
    let mut page = Vec::new();
    write_html(record, explanation, None, &mut page).expect("memory takes everything");
    String::from_utf8(page).expect("a page is text")
}

/// Writes the page, with how likely the failure was over time if that is known. Its data is never
/// in memory as a whole: of a long run that is as much as the record itself.
pub fn write_html(
    record: &Record,
    explanation: &Explanation,
    curve: Option<&Curve>,
    to: impl Write,
) -> io::Result<()> {
    let curve = curve.map_or(String::new(), |curve| curve.markup(run_end(record)));
    let document = Document::new(record, explanation);
    let script = format!("\"use strict\";\n(() => {{\n{}\n}})();\n", SCRIPTS.concat());
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; base-uri 'none'; \
         form-action 'none'",
        base64(&Sha256::digest(&script)),
        base64(&Sha256::digest(STYLE))
    );
    let title = format!(
        "{} seed {}: {}",
        document.file(),
        record.header.seed,
        if record.header.verdict.passed {
            "passed"
        } else {
            "failed"
        }
    );
    let title = markup_text(&title);
    let parts = [
        ("{{policy}}", Part::Text(&policy)),
        ("{{title}}", Part::Text(&title)),
        ("{{style}}", Part::Text(STYLE)),
        ("{{curve}}", Part::Text(&curve)),
        ("{{data}}", Part::Data(&document)),
        ("{{script}}", Part::Text(&script)),
    ];
    let mut page = BufWriter::new(to);
    fill(SKELETON, &parts, &mut page)?;
    page.flush()
}

/// What stands in a place of the skeleton.
enum Part<'a> {
    Text(&'a str),
    Data(&'a Document),
}

/// Writes the skeleton with its parts put in, in their order. A part is not searched for others, so
/// that nothing in the data is taken for a place.
fn fill(skeleton: &str, parts: &[(&str, Part<'_>)], page: &mut impl Write) -> io::Result<()> {
    let mut rest = skeleton;
    for (place, part) in parts {
        let (before, after) = rest
            .split_once(place)
            .expect("the skeleton has a place for every part, in this order");
        page.write_all(before.as_bytes())?;
        match part {
            Part::Text(text) => page.write_all(text.as_bytes())?,
            Part::Data(document) => serde_json::to_writer(ScriptData(&mut *page), document)?,
        }
        rest = after;
    }
    page.write_all(rest.as_bytes())
}

/// Writes JSON so that it cannot end or comment out the script element it stands in, with any keys.
struct ScriptData<'a, W>(&'a mut W);

impl<W: Write> Write for ScriptData<'_, W> {
    fn write(&mut self, json: &[u8]) -> io::Result<usize> {
        // All three can only stand inside of strings.
        let escape = |byte| match byte {
            b'<' => Some(b"\\u003c"),
            b'>' => Some(b"\\u003e"),
            b'&' => Some(b"\\u0026"),
            _ => None,
        };
        let mut rest = json;
        while let Some(place) = rest.iter().position(|byte| escape(*byte).is_some()) {
            self.0.write_all(&rest[..place])?;
            if let Some(escape) = escape(rest[place]) {
                self.0.write_all(escape)?;
            }
            rest = &rest[place + 1..];
        }
        self.0.write_all(rest)?;
        Ok(json.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

pub(crate) fn markup_text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits = chunk
            .iter()
            .chain(&[0, 0])
            .take(3)
            .fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        for place in 0..4 {
            match place <= chunk.len() {
                true => text.push(char::from(DIGITS[(bits >> (18 - 6 * place) & 63) as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_what_others_make_of_the_same_bytes() {
        for (bytes, text) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"\xff\xfe\xfd", "//79"),
        ] {
            assert_eq!(base64(bytes), text);
        }
    }

    #[test]
    fn a_part_that_looks_like_a_place_stays_as_it_is() {
        let parts = [("{{a}}", Part::Text("{{b}}")), ("{{b}}", Part::Text("x"))];
        let mut page = Vec::new();
        fill("1{{a}}2{{b}}3", &parts, &mut page).unwrap();
        assert_eq!(page, b"1{{b}}2x3");
    }

    #[test]
    fn data_has_no_character_that_markup_knows() {
        let mut text = Vec::new();
        serde_json::to_writer(ScriptData(&mut text), "</script><!--&amp;").unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(!text.contains(['<', '>', '&']), "{text}");
        let back: String = serde_json::from_str(&text).unwrap();
        assert_eq!(back, "</script><!--&amp;");
    }
}
