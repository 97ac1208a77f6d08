//! The program as a subcommand of cargo: `cargo shaketable …` becomes `shaketable …`.
//!
//! It replaces itself by the program `shaketable` that lies beside it, as cargo installs them, or
//! by the one in `PATH`. A second copy of that program would have to be linked with every build.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    // Cargo calls a subcommand with its name as the first argument.
    if arguments.first().is_some_and(|first| first == "shaketable") {
        arguments.remove(0);
    }
    let beside = std::env::current_exe()
        .ok()
        .map(|this| this.with_file_name("shaketable"))
        .filter(|path| path.is_file());
    let program = beside.unwrap_or_else(|| "shaketable".into());
    // It returns only if the program could not be started.
    let error = Command::new(&program).args(arguments).exec();
    eprintln!(
        "error: cargo-shaketable cannot start the program {}: {error}\n  help: install both: cargo install shaketable-cli",
        program.display()
    );
    ExitCode::from(shaketable_cli::exit_codes::SETUP_FAILED)
}
