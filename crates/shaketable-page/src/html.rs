//! The page as one file: markup, style, script and data put together.

use crate::cluster::run_end;
use crate::curve::Curve;
use crate::document::Document;
use sha2::{Digest, Sha256};
use shaketable_explain::Explanation;
use shaketable_record::Record;

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
    page(record, explanation, String::new())
}

/// The same, with how likely the failure was over time.
pub fn html_with_curve(record: &Record, explanation: &Explanation, curve: &Curve) -> String {
    page(record, explanation, curve.markup(run_end(record)))
}

fn page(record: &Record, explanation: &Explanation, curve: String) -> String {
    let document = Document::new(record, explanation);
    let data = serde_json::to_string(&document).expect("numbers and texts are JSON");
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
    let parts = [
        ("{{policy}}", policy),
        ("{{title}}", markup_text(&title)),
        ("{{style}}", STYLE.to_owned()),
        ("{{curve}}", curve),
        ("{{data}}", script_data(&data)),
        ("{{script}}", script),
    ];
    fill(SKELETON, &parts)
}

/// The skeleton with its parts put in, in their order. A part is not searched for others, so that
/// nothing in the data is taken for a place.
fn fill(skeleton: &str, parts: &[(&str, String)]) -> String {
    let mut page = String::with_capacity(
        skeleton.len() + parts.iter().map(|(_, text)| text.len()).sum::<usize>(),
    );
    let mut rest = skeleton;
    for (place, text) in parts {
        let (before, after) = rest
            .split_once(place)
            .expect("the skeleton has a place for every part, in this order");
        page.push_str(before);
        page.push_str(text);
        rest = after;
    }
    page.push_str(rest);
    page
}

/// JSON that cannot end or comment out the script element it stands in, with any keys.
fn script_data(json: &str) -> String {
    // All three can only stand inside of strings.
    json.replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
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
        let parts = [("{{a}}", "{{b}}".to_owned()), ("{{b}}", "x".to_owned())];
        assert_eq!(fill("1{{a}}2{{b}}3", &parts), "1{{b}}2x3");
    }

    #[test]
    fn data_has_no_character_that_markup_knows() {
        let text = script_data(&serde_json::to_string("</script><!--&amp;").unwrap());
        assert!(!text.contains(['<', '>', '&']), "{text}");
        let back: String = serde_json::from_str(&text).unwrap();
        assert_eq!(back, "</script><!--&amp;");
    }
}
