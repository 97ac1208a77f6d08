//! Cases of tests of `cargo test`.
//!
//! Such a case names no test file but a test, which describes its simulation in Rust. Only the test
//! program can run it, and it is told which case by its environment. The program `shaketable`
//! starts it in the same way as a person does.

use std::path::Path;

/// Names the case that a test program runs instead of its seeds.
pub const CASE_VARIABLE: &str = "SHAKETABLE_CASE";
/// How long a test program may take to make a failure small; `off` for not at all.
pub const MINIMISE_VARIABLE: &str = "SHAKETABLE_MINIMISE";
/// Names the file to which a test program writes what became of the case.
pub const OUTCOME_VARIABLE: &str = "SHAKETABLE_OUTCOME";
/// Names the file to which a test program writes how small the case became.
pub const MINIMISED_VARIABLE: &str = "SHAKETABLE_MINIMISED";

/// The line that runs a test, for the test runner in use.
pub fn cargo_line(package: Option<&str>, test: Option<&str>) -> String {
    let package = package.map_or(String::new(), |package| format!(" -p {package}"));
    let is_nextest = std::env::var_os("NEXTEST").is_some();
    let command = match (test, is_nextest) {
        (Some(test), true) => format!("nextest run{package} -E 'test(={test})'"),
        (None, true) => format!("nextest run{package}"),
        (Some(test), false) => format!("test{package} {test} -- --exact"),
        (None, false) => format!("test{package}"),
    };
    format!("cargo {command}")
}

impl super::Case {
    /// The line that runs this case, which is in a file, in `cargo test`.
    pub fn line(&self, path: &Path) -> String {
        let test = cargo_line(self.package.as_deref(), self.cargo_test.as_deref());
        format!("{CASE_VARIABLE}={} {test}", path.display())
    }
}
