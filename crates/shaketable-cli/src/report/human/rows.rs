//! Text in rows: a title, and beside it words that are wrapped to the width of the terminal.
//!
//! Words wrap between words only. What is meant to be pasted (a command, a path) is never broken,
//! however narrow the terminal is. Text that goes to no terminal is not wrapped at all: a fact is a
//! line, and can be searched for. Colour adds nothing that the words do not say.

use anstyle::Style;
use shaketable_explain::text::wrapped;
use std::fmt::{Display, Write};
use std::ops::RangeInclusive;

/// Lines of text in a file are as long as they are.
pub const UNWRAPPED: usize = usize::MAX;

/// Narrower text breaks every line, wider text tires the eye.
const TERMINAL: RangeInclusive<usize> = 50..=120;

/// Where the words of a row begin.
const WORDS_AT: usize = 20;

/// The columns of the terminal, if standard output is one; else lines have no end.
pub fn columns() -> usize {
    match terminal_size::terminal_size_of(std::io::stdout()) {
        Some((width, _)) => usize::from(width.0).clamp(*TERMINAL.start(), *TERMINAL.end()),
        None => UNWRAPPED,
    }
}

/// A text of rows under construction.
pub struct Rows {
    text: String,
    columns: usize,
}

impl Rows {
    /// No rows yet.
    pub fn new(columns: usize) -> Rows {
        Rows {
            text: String::new(),
            columns,
        }
    }

    /// A line as it is.
    pub fn line(&mut self, line: impl Display) {
        let _ = writeln!(self.text, "{line}");
    }

    /// Words that begin at the left and go on indented.
    pub fn words(&mut self, words: &str) {
        self.wrap("", "    ", words);
    }

    /// A title with words beside it; an empty title continues the row above.
    pub fn row(&mut self, title: &str, words: &str) {
        let first = format!("  {title:<17} ");
        self.wrap(&first, &" ".repeat(WORDS_AT), words);
    }

    /// Like [`Rows::row`], with something to paste, which is not broken.
    pub fn paste(&mut self, title: &str, line: impl Display) {
        let _ = writeln!(self.text, "  {title:<17} {line}");
    }

    /// An indented line in which columns are lined up; it wraps only if it does not fit.
    pub fn aligned(&mut self, indent: usize, line: &str) {
        let line = line.trim_end();
        if indent + plain(line).chars().count() <= self.columns {
            let _ = writeln!(self.text, "{:indent$}{line}", "");
            return;
        }
        // What the line is indented by itself belongs to its place among the others.
        let own = line.len() - line.trim_start().len();
        let first = " ".repeat(indent + own);
        let rest = " ".repeat(indent + own + 4);
        self.wrap(&first, &rest, line);
    }

    /// Columns that are lined up, and words beside them, which wrap there if they do not fit.
    pub fn beside(&mut self, columns: &str, words: &str) {
        let line = format!("{columns}{words}");
        if plain(&line).chars().count() <= self.columns {
            self.line(line.trim_end());
            return;
        }
        self.wrap(columns, &" ".repeat(columns.chars().count()), words);
    }

    /// A styled, indented sentence.
    pub fn styled(&mut self, style: Style, words: &str) {
        let words = format!("{style}{words}{style:#}");
        self.wrap("  ", "    ", &words);
    }

    fn wrap(&mut self, first: &str, rest: &str, words: &str) {
        for line in wrapped(first, rest, words, self.columns) {
            let _ = writeln!(self.text, "{}", line.trim_end());
        }
    }

    /// The finished text.
    pub fn finish(self) -> String {
        self.text
    }
}

/// A text without its colours.
pub fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}
