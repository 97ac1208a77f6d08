//! Names the shared library for the loader and forbids to unload it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfdb_c.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
