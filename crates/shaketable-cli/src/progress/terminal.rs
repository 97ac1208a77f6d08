//! Standard error as a terminal that is a little narrower than it is.
//!
//! A bar fills its line up to the last column. When a person presses Ctrl-C the terminal itself
//! writes `^C` there, which begins a new line; the bar then clears that one and stays above it. A
//! few columns at the end of the line, which no bar touches, are enough for it.

use indicatif::{ProgressDrawTarget, TermLike};
use std::io::{self, IsTerminal, Write};

/// The columns at the end of the line that stay empty.
const MARGIN: u16 = 3;
/// The columns of a terminal that does not say how many it has.
const COLUMNS_USUAL: u16 = 80;
/// How often a bar is drawn at most, in a second.
const DRAWS_A_SECOND: u8 = 20;

/// The columns that a bar may use.
pub(super) fn columns() -> u16 {
    let columns = terminal_size::terminal_size_of(io::stderr());
    let columns = columns.map_or(COLUMNS_USUAL, |(width, _)| width.0);
    columns.saturating_sub(MARGIN).max(1)
}

/// Where bars are drawn; nowhere if standard error is no terminal.
pub(super) fn target() -> ProgressDrawTarget {
    match io::stderr().is_terminal() {
        true => ProgressDrawTarget::term_like_with_hz(Box::new(Terminal), DRAWS_A_SECOND),
        false => ProgressDrawTarget::hidden(),
    }
}

#[derive(Debug)]
struct Terminal;

impl Terminal {
    /// Moves the cursor, in the direction that the letter of the control sequence says.
    fn go(steps: usize, direction: char) -> io::Result<()> {
        match steps {
            0 => Ok(()),
            _ => write!(io::stderr(), "\x1b[{steps}{direction}"),
        }
    }
}

impl TermLike for Terminal {
    fn width(&self) -> u16 {
        columns()
    }

    fn move_cursor_up(&self, n: usize) -> io::Result<()> {
        Terminal::go(n, 'A')
    }

    fn move_cursor_down(&self, n: usize) -> io::Result<()> {
        Terminal::go(n, 'B')
    }

    fn move_cursor_right(&self, n: usize) -> io::Result<()> {
        Terminal::go(n, 'C')
    }

    fn move_cursor_left(&self, n: usize) -> io::Result<()> {
        Terminal::go(n, 'D')
    }

    fn write_line(&self, s: &str) -> io::Result<()> {
        writeln!(io::stderr(), "{s}")
    }

    fn write_str(&self, s: &str) -> io::Result<()> {
        io::stderr().write_all(s.as_bytes())
    }

    fn clear_line(&self) -> io::Result<()> {
        io::stderr().write_all(b"\r\x1b[2K")
    }

    fn flush(&self) -> io::Result<()> {
        io::stderr().flush()
    }
}
