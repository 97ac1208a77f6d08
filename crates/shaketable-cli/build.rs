//! Exports the program's symbols to the libraries it loads: `fdb_*`, and the C library's functions for time and chance.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-rdynamic");
}
