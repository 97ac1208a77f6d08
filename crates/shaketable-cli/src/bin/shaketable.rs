//! The program `shaketable`.

shaketable_host::export_hermetic_symbols!();

#[global_allocator]
static HEAP: shaketable_host::heap::Heap = shaketable_host::heap::Heap;

fn main() -> std::process::ExitCode {
    shaketable_cli::main(std::env::args_os())
}
