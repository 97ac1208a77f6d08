//! Output that is no longer read, as by `| head -1`, ends the program quietly.
//!
//! Rust ignores SIGPIPE, and printing then panics. The signal cannot have its default back: the
//! program writes to the sockets of its workers too, and must survive those that died. So the one
//! panic that says so is recognised instead, and the program ends as if by that signal.

use crate::exit_codes;
use std::io;
use std::panic::{PanicHookInfo, set_hook, take_hook};

/// From now on the program ends when it cannot print any more.
pub fn end_quietly() {
    let others = take_hook();
    set_hook(Box::new(move |panic| {
        if is_unread(panic) {
            std::process::exit(exit_codes::UNREAD.into());
        }
        others(panic);
    }));
}

/// Whether the standard library could not print because the other end is closed.
fn is_unread(panic: &PanicHookInfo<'_>) -> bool {
    let closed = io::Error::from(nix::errno::Errno::EPIPE).to_string();
    let text = panic.payload().downcast_ref::<String>();
    text.is_some_and(|text| text.starts_with("failed printing to std") && text.ends_with(&closed))
}
