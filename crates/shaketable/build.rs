//! Compiles the C++ shim where a feature asks for it, and says what it must match.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "cpp-abi")]
    cpp_abi::build();
}

#[cfg(feature = "cpp-abi")]
mod cpp_abi {
    use std::env;

    const SHIM: &str = "src/cpp_abi.cpp";

    pub fn build() {
        println!("cargo:rerun-if-changed={SHIM}");
        let has = |feature: &str| env::var_os(format!("CARGO_FEATURE_{feature}")).is_some();
        let api_version = if has("FDB_7_1") {
            "710"
        } else if has("FDB_7_3") {
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
        if has("FDB_DOCKER") && api_version != "710" {
            build.compiler("clang++").cpp_set_stdlib("c++");
        }
        let compiler = build.get_compiler();
        println!(
            "cargo:warning=the C++ workload ABI passes std::string and std::shared_ptr by layout, so \
             the server must be built with the same C++ standard library as this shim. Compiling it \
             with {}; the official FoundationDB of API version {api_version} is built with {official} \
             (inside the image foundationdb/build, enable the feature fdb-docker)",
            compiler.path().display(),
        );
        build.compile("shaketable_cpp_abi");
    }
}
