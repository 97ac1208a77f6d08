//! How likely the failure was over simulated time, as a strip of the page.
//!
//! The strip is drawn here and not by the script: it never changes. It has the width and the scale
//! of the overview above it, so that a step in it stands below what happened there.

use crate::html::markup_text;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// How likely the failure was at moments of the run, had the rest been drawn anew.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// The moments, in the order of time.
    pub moments: Vec<Likelihood>,
    /// The moments before and after the largest step.
    pub step: (Likelihood, Likelihood),
    /// What happened between these two, in words.
    pub decisive: Vec<String>,
}

/// How likely the failure was at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Likelihood {
    /// Simulated seconds.
    pub time: f64,
    /// The share of futures that failed.
    pub probability: f64,
    /// Where the true probability begins, with a confidence of 95 %.
    pub low: f64,
    /// Where it ends.
    pub high: f64,
}

/// The width and height of the drawing, in its own units.
const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 100.0;

impl Curve {
    /// The strip, for a run of that many seconds.
    pub(crate) fn markup(&self, run_seconds: f64) -> String {
        let x = |time: f64| time / run_seconds.max(1e-9) * WIDTH;
        let y = |share: f64| (1.0 - share) * HEIGHT;
        let points = |moments: &mut dyn Iterator<Item = (f64, f64)>| {
            let mut text = String::new();
            for (time, share) in moments {
                let _ = write!(text, "{:.2},{:.2} ", x(time), y(share));
            }
            text.trim_end().to_owned()
        };
        let moments = self.moments.iter();
        let low = moments.clone().rev().map(|one| (one.time, one.low));
        let band = points(&mut moments.clone().map(|one| (one.time, one.high)).chain(low));
        let line = points(&mut moments.map(|one| (one.time, one.probability)));
        let (before, after) = &self.step;
        let percent = |one: &Likelihood| {
            format!(
                "{:.0} % ({:.0}–{:.0} %)",
                one.probability * 100.0,
                one.low * 100.0,
                one.high * 100.0
            )
        };
        let summary = format!(
            "How likely the failure was, had the rest of the run been drawn anew. The largest \
             step, from {} to {}, is between {:.6} s and {:.6} s.",
            percent(before),
            percent(after),
            before.time,
            after.time
        );
        let decisive = self.decisive.iter();
        let decisive = decisive.map(|text| format!("<li><bdi>{}</bdi></li>", markup_text(text)));
        let decisive: String = decisive.collect();
        let (from, width) = (x(before.time), (x(after.time) - x(before.time)).max(2.0));
        format!(
            "<section id=\"when\" aria-label=\"How likely the failure was\">\
             <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"{summary}\">\
             <rect class=\"step\" x=\"{from:.2}\" y=\"0\" width=\"{width:.2}\" height=\"{HEIGHT}\"/>\
             <polygon class=\"band\" points=\"{band}\"/>\
             <polyline class=\"line\" points=\"{line}\"/></svg>\
             <p>{summary}</p><ul>{decisive}</ul></section>"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_is_drawn_to_the_scale_of_the_run_and_its_words_stay_text() {
        let at = |time, probability| Likelihood {
            time,
            probability,
            low: probability / 2.0,
            high: 1.0,
        };
        let curve = Curve {
            moments: vec![at(0.0, 0.0), at(5.0, 0.5), at(10.0, 1.0)],
            step: (at(0.0, 0.0), at(5.0, 0.5)),
            decisive: vec!["<script> set".into()],
        };
        let markup = curve.markup(20.0);
        assert!(markup.contains("points=\"0.00,100.00 250.00,50.00 500.00,0.00\""));
        assert!(markup.contains("from 0 % (0–100 %) to 50 % (25–100 %)"));
        assert!(markup.contains("&lt;script&gt; set") && !markup.contains("<script"));
    }
}
