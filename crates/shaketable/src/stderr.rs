//! The last resort: a line on stderr, for what no trace can carry.
//!
//! Used where there is no context to trace through: a dead one, another thread's, a host that
//! passed none. Unlike `eprintln!` it never panics: much of this runs where a panic would cross
//! into C, and a closed stderr must not end a run.

/// Writes one line, with the name of the crate in front.
macro_rules! complain {
    ($($text:tt)*) => {
        $crate::stderr::write_line(format_args!($($text)*))
    };
}

pub(crate) use complain;

pub(crate) fn write_line(text: std::fmt::Arguments<'_>) {
    use std::io::Write;
    // In one piece, so that the lines of two threads do not mix; a line that cannot be written is
    // lost.
    let line = format!("shaketable: {text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}
