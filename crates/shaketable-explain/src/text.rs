//! An explanation as text for a terminal: about one screen.
//!
//! First the verdict; then the findings, each with numbered lines that prove it, in time; then the
//! stories of the keys that the failed phase had read. A line names when, which client, which
//! transaction and attempt, what, and where in the code. Colour adds nothing that the words do not
//! say, so that it can be left out.

use crate::lint::Hazard;
use crate::{Evidence, Explanation, Finding, Proof};
use anstyle::{AnsiColor, Style};
use shaketable_record::{Attempt, AttemptId, Record};
use std::fmt::Write;

/// Narrower text breaks every line, wider text tires the eye.
const WIDTH: std::ops::RangeInclusive<usize> = 80..=120;
/// More findings than this are only named.
const FINDINGS_MAX: usize = 3;
/// More lines of proof than this are left out in the middle.
const PROOF_MAX: usize = 9;

const BAD: Style = AnsiColor::Red.on_default().bold();
const GOOD: Style = AnsiColor::Green.on_default().bold();
const WARN: Style = AnsiColor::Yellow.on_default().bold();
const NAME: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// The text, for lines of this many columns.
pub fn text(record: &Record, explanation: &Explanation, width: usize) -> String {
    let mut page = Page {
        record,
        width: width.clamp(*WIDTH.start(), *WIDTH.end()),
        text: String::new(),
    };
    page.verdict();
    page.findings(&explanation.findings);
    page.stories(explanation);
    page.left_out();
    if let Some(line) = &record.header.reproduce {
        page.line(&format!("reproduce  {line}"));
    }
    page.text
}

/// A hazard in a few lines: where, what, what to do, and how often it was `seen`.
pub fn hazard(hazard: &Hazard, seen: &str, width: usize) -> String {
    let record = Record::default();
    let mut page = Page {
        record: &record,
        width: width.clamp(*WIDTH.start(), *WIDTH.end()),
        text: String::new(),
    };
    let Hazard { name, place, .. } = hazard;
    page.line(&format!(
        "{WARN}{name}{WARN:#} {place} {DIM}({seen}){DIM:#}"
    ));
    page.wrapped("  ", "  ", &hazard.sentence);
    page.wrapped("  → ", "    ", &hazard.advice);
    page.text
}

/// The line that a finding begins with.
pub fn place(record: &Record, finding: &Finding) -> Option<String> {
    finding.proof.iter().find_map(|proof| match proof.at {
        Evidence::Operation(id) => {
            let place = record.operations[id as usize].place?;
            let place = &record.places[place as usize];
            Some(format!("{}:{}", place.file, place.line))
        }
        _ => None,
    })
}

struct Page<'a> {
    record: &'a Record,
    width: usize,
    text: String,
}

impl Page<'_> {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// How the seed chose to be run.
    fn drawn(&mut self) {
        let header = &self.record.header;
        if !header.drawn.is_empty() {
            let clients = match header.clients {
                1 => "1 client".to_owned(),
                clients => format!("{clients} clients"),
            };
            let drawn = format!("drawn: {clients}, {}", header.drawn);
            self.wrapped("  ", "  ", &drawn);
        }
    }

    fn verdict(&mut self) {
        let header = &self.record.header;
        let verdict = &header.verdict;
        if verdict.passed {
            self.line(&format!(
                "{GOOD}PASS{GOOD:#} {} seed {}",
                header.file, header.seed
            ));
            self.drawn();
            self.line("  the run passed: there is nothing to explain");
            return;
        }
        self.line(&format!(
            "{BAD}FAIL{BAD:#} {} seed {}",
            header.file, header.seed
        ));
        self.drawn();
        let mut what = verdict.kind.clone().unwrap_or_else(|| "failed".to_owned());
        if let (Some(phase), Some(workload)) = (&verdict.phase, &verdict.workload) {
            let _ = write!(what, " in {phase} of {workload}");
        }
        if let Some(client) = verdict.client {
            let _ = write!(what, ", client {client}");
        }
        if let Some(time) = verdict.time {
            let _ = write!(what, ", at {time:.3} s");
        }
        if let Some(message) = &verdict.message {
            let _ = write!(what, ": {message}");
        }
        self.wrapped("  ", "  ", &what);
    }

    fn findings(&mut self, findings: &[Finding]) {
        if findings.is_empty() && !self.record.header.verdict.passed {
            self.line("");
            self.wrapped(
                "",
                "",
                "No finding: the record proves none of the mistakes that this program knows. The \
                 stories below and `shaketable log` show what happened.",
            );
        }
        for (number, finding) in (1..).zip(findings.iter().take(FINDINGS_MAX)) {
            self.line("");
            let likely = if number == 1 {
                "most likely the cause"
            } else {
                "also"
            };
            let name = finding.name;
            let times = match finding.times {
                0 | 1 => String::new(),
                times => format!("; {times} times in this run"),
            };
            self.line(&format!(
                "{number}. {NAME}{name}{NAME:#} {DIM}({likely}{times}){DIM:#}"
            ));
            self.wrapped("   ", "   ", &finding.sentence);
            // The first one is told in full; the others are there if it was not it.
            if number == 1 {
                self.proof(&finding.proof);
                self.wrapped("   → ", "     ", &finding.advice);
            }
        }
        if findings.len() > FINDINGS_MAX {
            let names: Vec<&str> = findings[FINDINGS_MAX..].iter().map(|f| f.name).collect();
            self.line("");
            self.wrapped("", "  ", &format!("Less likely: {}", names.join(", ")));
        }
    }

    fn proof(&mut self, proof: &[Proof]) {
        for (index, line) in proof.iter().enumerate() {
            if proof.len() > PROOF_MAX && index == PROOF_MAX - 2 {
                let left = proof.len() - PROOF_MAX + 1;
                self.line(&format!("       … {left} more"));
            }
            if proof.len() > PROOF_MAX && (PROOF_MAX - 2..proof.len() - 1).contains(&index) {
                continue;
            }
            self.evidence(&format!("   {:>2} ", index + 1), line, None);
        }
    }

    fn stories(&mut self, explanation: &Explanation) {
        for story in &explanation.stories {
            self.line("");
            let text = &story.text;
            self.line(&format!("The story of {NAME}{text}{NAME:#}"));
            let plural = |count: u32| if count == 1 { "" } else { "s" };
            if story.earlier > 0 {
                let plural = plural(story.earlier);
                self.line(&format!("      … {} change{plural} before", story.earlier));
            }
            // In the order of commits. A commit took effect after those before it, so not before
            // they were asked for: where that is later than its own request, both are told.
            let mut not_before = f64::NEG_INFINITY;
            for (index, chapter) in story.chapters.iter().enumerate() {
                // The last chapter is what the failed phase read.
                if story.later > 0 && index + 1 == story.chapters.len() {
                    let plural = plural(story.later);
                    self.line(&format!("      … {} change{plural} more", story.later));
                }
                let asked = chapter.at.time(self.record);
                match asked.filter(|asked| *asked < not_before) {
                    Some(asked) => {
                        let note = format!("{} (asked for at {asked:.3} s)", chapter.note);
                        let later = Proof {
                            at: chapter.at,
                            note,
                        };
                        self.evidence("      ", &later, Some(not_before));
                    }
                    None => self.evidence("      ", chapter, None),
                }
                not_before = asked.map_or(not_before, |asked| asked.max(not_before));
            }
        }
    }

    fn left_out(&mut self) {
        let left = self.record.header.left_out;
        self.line("");
        if left.operations + left.attempts + left.committed > 0 {
            self.wrapped(
                "",
                "  ",
                &format!(
                    "The run did more than a record holds: the first {} calls and {} commits are \
                     missing, so older causes cannot be found.",
                    left.operations, left.committed
                ),
            );
        }
    }

    /// A line of proof: when, who, what, where. The time is that of the proof if none is given.
    fn evidence(&mut self, lead: &str, proof: &Proof, time: Option<f64>) {
        let (own, attempt, place) = self.where_and_when(proof.at);
        let time = time.map_or(own, |time| format!("{time:.3} s"));
        let who = attempt.map_or_else(|| "another writer".to_owned(), |id| self.who(id));
        let lead = format!("{lead}{DIM}{time:>10} {who:<20}{DIM:#} ");
        let indent = " ".repeat(visible(&lead));
        let place = place.map_or_else(String::new, |place| format!(" {DIM}[{place}]{DIM:#}"));
        self.wrapped(&lead, &indent, &format!("{}{place}", proof.note));
    }

    fn who(&self, id: AttemptId) -> String {
        let attempt = &self.record.attempts[id as usize];
        let client = attempt
            .client
            .map_or("outside".to_owned(), |client| format!("client {client}"));
        let retried = |other: &Attempt| other.retries.is_some_and(|retry| retry.attempt == id);
        let only = attempt.number == 1 && !self.record.attempts.iter().any(retried);
        match attempt.number {
            _ if only => format!("{client} txn {}", attempt.transaction),
            number => format!("{client} txn {}.{number}", attempt.transaction),
        }
    }

    fn where_and_when(&self, at: Evidence) -> (String, Option<AttemptId>, Option<String>) {
        let line_of = |operation: u32| {
            let place = self.record.operations[operation as usize].place?;
            let place = &self.record.places[place as usize];
            Some(format!("{}:{}", self.file_name(&place.file), place.line))
        };
        let time = at.time(self.record).map(|time| format!("{time:.3} s"));
        match at {
            Evidence::Operation(id) => {
                let attempt = self.record.operations[id as usize].attempt;
                (time.unwrap_or_default(), Some(attempt), line_of(id))
            }
            Evidence::Attempt(id) => (time.unwrap_or_default(), Some(id), None),
            Evidence::Committed(id) => {
                let committed = &self.record.committed[id as usize];
                let version = || format!("v{}", committed.version);
                let commit = committed.attempt.and_then(|attempt| {
                    let attempt = &self.record.attempts[attempt as usize];
                    attempt.commit.as_ref()
                });
                let line = commit.and_then(|commit| line_of(commit.operation));
                (time.unwrap_or_else(version), committed.attempt, line)
            }
        }
    }

    /// The name of a file without its folder, if that is enough to tell it from all others.
    fn file_name<'f>(&self, file: &'f str) -> &'f str {
        let name = |file: &'f str| file.rsplit_once('/').map_or(file, |(_, name)| name);
        let mut others = self.record.places.iter().filter(|place| place.file != file);
        let unique = !others.any(|place| place.file.rsplit('/').next() == Some(name(file)));
        if unique { name(file) } else { file }
    }

    /// Text broken between words.
    fn wrapped(&mut self, first: &str, rest: &str, text: &str) {
        for line in wrapped(first, rest, text, self.width) {
            self.line(&line);
        }
    }
}

/// Text broken between words into lines of at most `width` columns, the first of which begins with
/// `first` and the others with `rest`.
pub fn wrapped(first: &str, rest: &str, text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = first.to_owned();
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && visible(&line) + 1 + visible(word) > width {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    lines.push(line);
    lines
}

/// How many columns a text takes, without its colours.
fn visible(text: &str) -> usize {
    let mut count = 0;
    let mut in_escape = false;
    for letter in text.chars() {
        match (in_escape, letter) {
            (false, '\u{1b}') => in_escape = true,
            (false, _) => count += 1,
            (true, 'm') => in_escape = false,
            (true, _) => {}
        }
    }
    count
}
