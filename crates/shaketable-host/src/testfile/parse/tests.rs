//! Files that are right, files that are wrong in every way, and text that is no file at all.

use super::*;

const WHOLE: &str = r#"
[configuration]
buggify = true
datacenters = 3
tenantModes = ["disabled"]

[[knobs]]
max_write_transaction_life_versions = 1_000_000

[[test]]
testTitle = "First"
timeout = 60
clearAfterTest = false
runFailureWorkloads = false

    [[test.knobs]]
    DEFAULT_BACKOFF = 0.5

    [[test.workload]]
    testName = "External"
    libraryName = "atomic"
    libraryPath = "./target/release"
    workloadName = "Atomic"
    rounds = 30

    [[test.workload]]
    testName = "RandomClogging"
    testDuration = 30.0
    swizzle = 1

[[test]]
testTitle = 'Second'

    [[test.workload]]
    testName = 'Attrition'
"#;

fn errors(source: &str) -> String {
    parse(Path::new("tests/atomic.toml"), source)
        .expect_err("the file is wrong")
        .to_string()
}

#[test]
fn a_file_with_everything_is_read() {
    let file = parse(Path::new("x.toml"), WHOLE).unwrap();
    insta::assert_debug_snapshot!(file);
}

#[test]
fn misspelt_names_are_reported_together_with_the_nearest_name() {
    insta::assert_snapshot!(errors(
        r#"
testTitle = "lost"

[configuration]
buggfy = true
datacenters = "three"

[[knobs]]
max_write_transaction_live_versions = 1

[[test]]
testTitel = "x"
timeout = "soon"
useDB = 1
datacenters = 3

[[test.workload]]
testName = "External"
library = "atomic"

[[test.workload]]
testName = "RandomCloging"

[[test.workload]]
testName = "RandomClogging"
testDurration = 30.0
"#
    ));
}

#[test]
fn what_foundationdbs_harness_reads_may_stand_at_the_root() {
    let source = "testClass = 'Cycle'\ntestPriority = '20'\n[configuration]\nconfigureLocked = true\n[[test]]\ntestTitle = 'x'\n[[test.workload]]\ntestName = 'Cycle'\n";
    parse(Path::new("x.toml"), source).unwrap();
}

#[test]
fn no_text_makes_the_reader_panic() {
    let random = shaketable_kernel::Stream::new(1, "garbage");
    let scraps = [
        "[[",
        "]]",
        "[",
        "]",
        "=",
        "'",
        "\"",
        "\n",
        "€",
        "-1",
        "1e999",
        "nan",
        "{",
        "}",
        "\\",
        "#",
        "true",
        "test",
        "[[test.workload]]\n",
        "testName = 'External'\n",
        "[configuration]\n",
        "\0",
        "99999999999999999999",
    ];
    let mut read = 0;
    for _ in 0..1000 {
        let mut text: Vec<char> = WHOLE.chars().collect();
        for _ in 0..random.range(1, 6) {
            let at = random.index(text.len());
            match random.index(3) {
                0 => drop(text.remove(at)),
                1 => drop(text.splice(at..at, random.pick(&scraps).chars())),
                _ => text.truncate(at.max(20)),
            }
        }
        let text: String = text.into_iter().collect();
        match parse(Path::new("x.toml"), &text) {
            Ok(_) => read += 1,
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    assert!(read > 10, "most garbage is none: {read}");
}

#[test]
fn texts_where_numbers_belong_are_named_with_their_line() {
    insta::assert_snapshot!(errors(
        r#"
[[knobs]]
default_backoff = "soon"

[[test]]
testTitle = "x"

[[test.workload]]
testName = "Cycle"
testDuration = "long"

[[test.workload]]
testName = "Attrition"
reboot = "perhaps"
"#
    ));
}

#[test]
fn a_workload_of_foundationdb_that_is_not_implemented_is_named_as_such() {
    insta::assert_snapshot!(errors(
        "[[test]]\ntestTitle = 'x'\n[[test.workload]]\ntestName = 'SaveAndKill'\n"
    ));
}

#[test]
fn broken_toml_names_the_place() {
    insta::assert_snapshot!(errors("[[test]]\ntestTitle = 'x\n"));
}

#[test]
fn a_file_without_tests_says_what_is_missing() {
    insta::assert_snapshot!(errors("[configuration]\nbuggify = true\n"));
}
