//! Lets the test programs offer their symbols to libraries that they load, as a host does.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-tests=-rdynamic");
}
