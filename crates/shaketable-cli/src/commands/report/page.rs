//! The page: markup, style and three charts, in one file.
//!
//! It has no script: charts are drawn here, as SVG, and everything that they show is also in a
//! table below, so that nothing is told by colour or shape alone. What comes from messages is only
//! ever put in as text ([`Text`]).

use super::read::{Coverage, Failure, History, Sweep};
use crate::report::human::{plural, simulated};
use std::fmt::{self, Display, Write};

const STYLE: &str = include_str!("page.css");

/// The page, under this title.
pub fn html(history: &History, title: &str) -> String {
    let mut page = String::new();
    write_page(&mut page, history, title).expect("a string takes any text");
    page
}

/// Text that means nothing to a browser.
struct Text<T>(T);

impl<T: Display> Display for Text<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for letter in self.0.to_string().chars() {
            match letter {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                letter => f.write_char(letter)?,
            }
        }
        Ok(())
    }
}

fn write_page(page: &mut String, history: &History, title: &str) -> fmt::Result {
    let now = match history.sweeps.last() {
        _ if history.failures.iter().any(|failure| failure.is_left) => ("failing", "failed"),
        Some(last) if !last.is_whole => ("cut off", "failed"),
        Some(_) => ("passing", "passed"),
        None => ("no sweep", "passed"),
    };
    write!(
        page,
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{0}: {1}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<header>\n\
         <h1>{0} <span class=\"chip {2}\">{1}</span></h1>\n<p>{3}, {4} simulated.</p>\n</header>\n<main>\n",
        Text(title),
        now.0,
        now.1,
        Text(history.sentence()),
        Text(simulated(
            history
                .sweeps
                .iter()
                .map(|sweep| sweep.simulated_seconds)
                .sum()
        )),
    )?;
    charts(page, history)?;
    failures(page, history)?;
    if let Some((sweep, coverage)) = newest_coverage(history) {
        gaps(page, sweep, coverage)?;
    }
    sweeps(page, history)?;
    page.push_str("</main>\n</body>\n</html>\n");
    Ok(())
}

fn newest_coverage(history: &History) -> Option<(&Sweep, &Coverage)> {
    let mut newest = history.sweeps.iter().rev();
    newest.find_map(|sweep| Some((sweep, sweep.coverage.as_ref()?)))
}

/// The size of a chart, in units of its own.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;
/// A bar is never wider.
const BAR_MAX: f64 = 40.0;

fn charts(page: &mut String, history: &History) -> fmt::Result {
    page.push_str("<section aria-labelledby=\"over-time\">\n<h2 id=\"over-time\">Over time</h2>\n<div class=\"charts\">\n");
    let sweeps = &history.sweeps;
    bars(page, sweeps)?;
    let coverage = sweeps.iter().map(|sweep| sweep.coverage.as_ref());
    let coverage = coverage.map(|coverage| coverage.map(Coverage::percent));
    let percent = |value: f64| format!("{value:.0} %");
    line(
        page,
        "Failure handling that was met",
        sweeps,
        coverage,
        Some(100.0),
        percent,
    )?;
    let speed = |value: f64| format!("{value:.1} runs/s");
    line(
        page,
        "Speed",
        sweeps,
        sweeps.iter().map(Sweep::speed),
        None,
        speed,
    )?;
    page.push_str("</div>\n<p class=\"note\">From the oldest sweep to the newest. The table of all sweeps has every number.</p>\n</section>\n");
    Ok(())
}

/// Runs of each sweep, and the part that failed.
fn bars(page: &mut String, sweeps: &[Sweep]) -> fmt::Result {
    let highest = sweeps.iter().map(Sweep::runs).max().unwrap_or(0).max(1) as f64;
    let step = WIDTH / sweeps.len().max(1) as f64;
    let width = (step * 0.8).min(BAR_MAX);
    let (runs, failed) = sweeps
        .last()
        .map_or((0, 0), |last| (last.runs(), last.failed));
    begin(
        page,
        "Runs",
        &format!("{}, {failed} failed, in the newest", plural(runs, "run")),
    )?;
    for (number, sweep) in sweeps.iter().enumerate() {
        let left = (number as f64 + 0.5) * step - width / 2.0;
        let height = HEIGHT * sweep.runs() as f64 / highest;
        // However few failed, it can be seen.
        let red = match sweep.failed {
            0 => 0.0,
            failed => (HEIGHT * failed as f64 / highest).max(4.0),
        };
        write!(
            page,
            "<g><title>{}: {}, {} failed</title>\
             <rect class=\"runs\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>\
             <rect class=\"failed\" x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{red:.1}\"/></g>",
            Text(&sweep.label),
            plural(sweep.runs(), "run"),
            sweep.failed,
            HEIGHT - height,
            HEIGHT - red,
        )?;
    }
    end(page)
}

/// A number over time. Where it is unknown the line has a gap.
fn line(
    page: &mut String,
    name: &str,
    sweeps: &[Sweep],
    values: impl Iterator<Item = Option<f64>>,
    highest: Option<f64>,
    words: impl Fn(f64) -> String,
) -> fmt::Result {
    let values: Vec<Option<f64>> = values.collect();
    let known = || values.iter().flatten().copied();
    let Some(newest) = known().last() else {
        return Ok(());
    };
    let highest = highest
        .unwrap_or_else(|| known().fold(0.0, f64::max))
        .max(f64::MIN_POSITIVE);
    let step = WIDTH / values.len() as f64;
    let place = |number: usize, value: f64| {
        (
            (number as f64 + 0.5) * step,
            HEIGHT - HEIGHT * value / highest,
        )
    };
    let first = known().next().unwrap_or(newest);
    let change = match known().count() {
        1 => words(newest),
        _ => format!(
            "{} in the oldest, {} in the newest",
            words(first),
            words(newest)
        ),
    };
    begin(page, name, &change)?;
    let mut path = String::new();
    let mut is_drawing = false;
    for (number, value) in values.iter().enumerate() {
        is_drawing = match value {
            None => false,
            Some(value) => {
                let (x, y) = place(number, *value);
                write!(path, "{}{x:.1} {y:.1}", if is_drawing { "L" } else { "M" })?;
                true
            }
        };
    }
    write!(page, "<path class=\"line\" d=\"{path}\"/>")?;
    for (number, (sweep, value)) in sweeps.iter().zip(&values).enumerate() {
        if let Some(value) = value {
            let (x, y) = place(number, *value);
            write!(
                page,
                "<circle class=\"dot\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{}: {}</title></circle>",
                Text(&sweep.label),
                Text(words(*value)),
            )?;
        }
    }
    end(page)
}

fn begin(page: &mut String, name: &str, words: &str) -> fmt::Result {
    write!(
        page,
        "<figure>\n<figcaption><strong>{0}</strong> {1}</figcaption>\n\
         <svg viewBox=\"-4 -6 {2} {3}\" role=\"img\" aria-label=\"{0}: {1}\">",
        Text(name),
        Text(words),
        WIDTH + 8.0,
        HEIGHT + 12.0,
    )
}

fn end(page: &mut String) -> fmt::Result {
    page.write_str("</svg>\n</figure>\n")
}

fn failures(page: &mut String, history: &History) -> fmt::Result {
    page.push_str("<section aria-labelledby=\"failures\">\n<h2 id=\"failures\">Failures</h2>\n");
    if history.failures.is_empty() {
        page.push_str("<p>No run has failed.</p>\n</section>\n");
        return Ok(());
    }
    for failure in &history.failures {
        write_failure(page, history, failure)?;
    }
    page.push_str("</section>\n");
    Ok(())
}

fn write_failure(page: &mut String, history: &History, failure: &Failure) -> fmt::Result {
    let label = |number: Option<&usize>| {
        let sweep = number.and_then(|number| history.sweeps.get(*number));
        sweep.map_or("", |sweep| sweep.label.as_str())
    };
    let (first, last) = (failure.sweeps.first(), failure.sweeps.last());
    let (state, class) = match failure.is_left {
        true => ("still fails", "failed"),
        false => ("gone", "passed"),
    };
    write!(
        page,
        "<article>\n<h3>{} <span class=\"chip {class}\">{state}</span></h3>\n<p>{}</p>\n<dl>\n\
         <dt>Test file</dt><dd>{}</dd>\n<dt>Seen</dt><dd>{} in {}",
        Text(&failure.name),
        Text(&failure.sentence),
        Text(&failure.file),
        plural(failure.runs, "run"),
        plural(failure.sweeps.len() as u64, "sweep"),
    )?;
    match first == last {
        true => writeln!(page, ", {}</dd>", Text(label(first)))?,
        false => {
            let (first, last) = (Text(label(first)), Text(label(last)));
            writeln!(page, ", first {first}, last {last}</dd>")?;
        }
    }
    if let Some(case) = &failure.case {
        writeln!(page, "<dt>Case</dt><dd><code>{}</code></dd>", Text(case))?;
    }
    write!(
        page,
        "<dt>Run it</dt><dd><code>{}</code></dd>\n</dl>\n</article>\n",
        Text(&failure.reproduce)
    )
}

fn gaps(page: &mut String, sweep: &Sweep, coverage: &Coverage) -> fmt::Result {
    write!(
        page,
        "<section aria-labelledby=\"coverage\">\n<h2 id=\"coverage\">Failure handling that was never met</h2>\n\
         <p>In {}, lines that call the database met {} of the {} outcomes that their calls can have.</p>\n",
        Text(&sweep.label),
        coverage.met,
        coverage.possible,
    )?;
    if !coverage.gaps.is_empty() {
        let rows = coverage.gaps.iter().map(|(line, call, never)| {
            let line = if line.is_empty() {
                "an unknown line"
            } else {
                line
            };
            [line.to_owned(), call.clone(), never.clone()]
        });
        table(
            page,
            "Outcomes that were never met",
            &["line", "call", "never"],
            rows,
        )?;
    }
    page.push_str("</section>\n");
    Ok(())
}

fn sweeps(page: &mut String, history: &History) -> fmt::Result {
    page.push_str("<section aria-labelledby=\"sweeps\">\n<h2 id=\"sweeps\">All sweeps</h2>\n");
    let rows = history.sweeps.iter().rev().map(|sweep| {
        let unknown = || "–".to_owned();
        let started = sweep.started.as_ref();
        [
            sweep.label.clone(),
            started.map_or_else(unknown, |time| time.replace('T', " ").replace('Z', "")),
            sweep.files.join(", "),
            sweep.host.clone().unwrap_or_else(|| "embedded".to_owned()),
            match sweep.is_whole {
                true => sweep.runs().to_string(),
                false => format!("{}, then cut off", sweep.runs()),
            },
            sweep.failed.to_string(),
            simulated(sweep.simulated_seconds),
            sweep
                .speed()
                .map_or_else(unknown, |speed| format!("{speed:.1}")),
            sweep
                .coverage
                .as_ref()
                .map_or_else(unknown, |one| format!("{:.0} %", one.percent())),
        ]
    });
    let head = [
        "commit",
        "began (UTC)",
        "test files",
        "host",
        "runs",
        "failed",
        "simulated",
        "runs/s",
        "handling met",
    ];
    table(page, "All sweeps, the newest first", &head, rows)?;
    page.push_str("</section>\n");
    Ok(())
}

/// A table that can be scrolled sideways, with keys too.
fn table<const N: usize>(
    page: &mut String,
    caption: &str,
    head: &[&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> fmt::Result {
    write!(
        page,
        "<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"{0}\">\n<table>\n<caption>{0}</caption>\n<thead><tr>",
        Text(caption)
    )?;
    for name in head {
        write!(page, "<th scope=\"col\">{}</th>", Text(name))?;
    }
    page.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        page.push_str("<tr>");
        for (number, cell) in row.iter().enumerate() {
            match number {
                0 => write!(page, "<th scope=\"row\">{}</th>", Text(cell))?,
                _ => write!(page, "<td>{}</td>", Text(cell))?,
            }
        }
        page.push_str("</tr>\n");
    }
    page.push_str("</tbody>\n</table>\n</div>\n");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_without_sweeps_is_a_page_too() {
        let page = html(&History::default(), "Shaketable");
        assert!(page.contains("No run has failed."), "{page}");
        assert!(!page.contains("NaN"), "{page}");
    }

    #[test]
    fn nothing_in_a_message_is_markup() {
        let history = History {
            sweeps: vec![Sweep {
                label: "</title><script>alert(1)</script>".to_owned(),
                passed: 1,
                ..Sweep::default()
            }],
            failures: Vec::new(),
        };
        let page = html(&history, "<b>&");
        assert!(!page.contains("<script"), "{page}");
        assert!(page.contains("&lt;b&gt;&amp;"), "{page}");
    }
}
