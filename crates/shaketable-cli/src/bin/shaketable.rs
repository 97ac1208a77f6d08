//! The program `shaketable`.

shaketable_host::export_hermetic_symbols!();

fn main() -> std::process::ExitCode {
    shaketable_cli::main(std::env::args_os())
}
