//! Checks the choice of a FoundationDB, and compiles the C++ shim where a feature asks for it.
//!
//! The choice is checked here as well as in the library, because `foundationdb` and its own
//! dependencies stumble over a bad one first, and their errors are hard to understand.

use std::env;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Set by users who want tokio's unstable API, in every crate of their build.
    println!("cargo::rustc-check-cfg=cfg(tokio_unstable)");
    let versions = ["7_1", "7_3", "7_4"];
    let chosen = versions
        .iter()
        .filter(|version| has_feature(&format!("FDB_{version}")));
    match chosen.count() {
        1 => {}
        0 => println!(
            "cargo::error=shaketable needs to know the FoundationDB it works with: enable exactly one \
             of the features `fdb-7_1`, `fdb-7_3`, `fdb-7_4`"
        ),
        _ => println!(
            "cargo::error=shaketable works with one FoundationDB at a time: enable exactly one of the \
             features `fdb-7_1`, `fdb-7_3`, `fdb-7_4`"
        ),
    }
    #[cfg(feature = "cpp-abi")]
    cpp_abi::build();
}

fn has_feature(name: &str) -> bool {
    env::var_os(format!("CARGO_FEATURE_{name}")).is_some()
}

#[cfg(feature = "cpp-abi")]
mod cpp_abi {
    use super::has_feature;

    const SHIM: &str = "src/cpp_abi.cpp";

    pub fn build() {
        println!("cargo::rerun-if-changed={SHIM}");
        let api_version = if has_feature("FDB_7_1") {
            "710"
        } else if has_feature("FDB_7_3") {
            "730"
        } else {
            "740"
        };
        let mut build = cc::Build::new();
        build
            .cpp(true)
            .std("c++14")
            .define("SHAKETABLE_FDB_API_VERSION", api_version)
            .warnings(true)
            .file(SHIM);
        // FoundationDB's releases are built by gcc up to 7.1 and by clang with libc++ since 7.3.
        let official = if api_version == "710" {
            "gcc and libstdc++"
        } else {
            "clang and libc++"
        };
        if has_feature("FDB_DOCKER") && api_version != "710" {
            build.compiler("clang++").cpp_set_stdlib("c++");
        }
        let compiler = build.get_compiler();
        println!(
            "cargo::warning=the C++ workload ABI passes std::string and std::shared_ptr by layout, so \
             the server must be built with the same C++ standard library as this shim. Compiling it \
             with {}; the official FoundationDB of API version {api_version} is built with {official} \
             (inside the image foundationdb/build, enable the feature fdb-docker)",
            compiler.path().display(),
        );
        build.compile("shaketable_cpp_abi");
    }
}
