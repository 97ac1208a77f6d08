//! The same program as a subcommand of cargo: `cargo shaketable …` calls it with its own name as
//! first argument.

shaketable_host::export_hermetic_symbols!();

#[global_allocator]
static HEAP: shaketable_host::heap::Heap = shaketable_host::heap::Heap;

fn main() -> std::process::ExitCode {
    let mut arguments: Vec<_> = std::env::args_os().collect();
    if arguments
        .get(1)
        .is_some_and(|argument| argument == "shaketable")
    {
        arguments.remove(1);
    }
    shaketable_cli::main(arguments)
}
