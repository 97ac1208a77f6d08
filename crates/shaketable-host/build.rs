//! Makes an empty shared object that calls itself `libfdb_c.so`.
//!
//! A workload library lists `libfdb_c.so` among the libraries it needs. The host already plays that
//! part, but the loader looks for the name; `src/library/stand_in.rs` loads this object, which
//! satisfies the loader.

use std::env;
use std::fs;
use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let source = out.join("empty.c");
    fs::write(&source, "").expect("OUT_DIR can be written");
    let compiler = match cc::Build::new()
        .cargo_metadata(false)
        .opt_level(1)
        .debug(false)
        .try_get_compiler()
    {
        Ok(compiler) => compiler,
        Err(error) => {
            println!(
                "cargo::error=expected a C compiler, to make an empty libfdb_c.so: {error}: install one"
            );
            return;
        }
    };
    let mut command = compiler.to_command();
    command
        .args(["-shared", "-nostdlib", "-Wl,-soname,libfdb_c.so", "-o"])
        .arg(out.join("stand_in.so"))
        .arg(&source);
    match command.output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => println!(
            "cargo::error=expected {command:?} to make an empty libfdb_c.so, found: {}",
            String::from_utf8_lossy(&output.stderr).replace('\n', " ")
        ),
        Err(error) => println!("cargo::error=expected to run {command:?}: {error}"),
    }
}
