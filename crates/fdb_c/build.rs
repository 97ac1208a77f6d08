//! Sets the shared library's name for the loader and prevents it from being unloaded.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libfdb_c.so");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
