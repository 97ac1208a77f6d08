//! Test files: reading one never panics, and what it returns is what its types promise.
//!
//! A text is made of lines that a test file may have, in any order, with values that are right,
//! wrong or extreme, and is then damaged in a few places.

use arbitrary::{Result, Unstructured};
use shaketable_host::testfile::TestFile;
use std::path::Path;

const TABLES: &[&str] = &[
    "[[test]]",
    "[[test.workload]]",
    "[[test.knobs]]",
    "[[knobs]]",
    "[configuration]",
    "[test]",
    "[test.workload]",
    "[[configuration]]",
    "[other]",
];

const KEYS: &[&str] = &[
    "testTitle",
    "testName",
    "timeout",
    "useDB",
    "runSetup",
    "checkOnly",
    "clearAfterTest",
    "runFailureWorkloads",
    "disabledFailureInjectionWorkloads",
    "databasePingDelay",
    "connectionFailuresDisableDuration",
    "libraryName",
    "libraryPath",
    "workloadName",
    "useCAPI",
    "testDuration",
    "machinesToKill",
    "machinesToLeave",
    "reboot",
    "meanDelay",
    "nodeCount",
    "transactionsPerSecond",
    "expectedRate",
    "actorCount",
    "keyPrefix",
    "scale",
    "clogginess",
    "buggify",
    "faultInjection",
    "simpleConfig",
    "generateFearless",
    "minimumReplication",
    "machineCount",
    "config",
    "tenantModes",
    "extraMachineCountDC",
    "storageEngineExcludeTypes",
    "max_transaction_byte_limit",
    "commit_transaction_batch_interval_max",
    "enableDD",
];

const VALUES: &[&str] = &[
    "true",
    "false",
    "'true'",
    "'External'",
    "'Cycle'",
    "'Attrition'",
    "'RandomClogging'",
    "'Rollback'",
    "'ChangeConfig'",
    "'ConsistencyCheck'",
    "'Cycl'",
    "0",
    "1",
    "-1",
    "30",
    "30.0",
    "0.25",
    "1e308",
    "-1e308",
    "nan",
    "-inf",
    "inf",
    "9223372036854775807",
    "-9223372036854775808",
    "''",
    "\"\"\"\n\n\"\"\"",
    "'\\x00'",
    "'\\xff'",
    "'\\'",
    "\"€\\u0000\"",
    "'ssd double'",
    "[]",
    "[1, 'two', [3.0]]",
    "{ a = 1, b = { c = '€' } }",
    "2026-01-02T03:04:05Z",
    "'a,b,,c'",
];

/// See the module.
pub fn run(u: &mut Unstructured) -> Result<()> {
    let text = text(u)?;
    check(&text);
    Ok(())
}

/// Reads a text and holds the result against what the types promise.
pub fn check(text: &str) {
    let path = Path::new("fuzz.toml");
    let read = TestFile::parse(path, text);
    assert_eq!(read, TestFile::parse(path, text), "read twice: {text:?}");
    match read {
        Ok(file) => {
            assert!(!file.tests.is_empty(), "{text:?}");
            let lines = 1 + text.matches('\n').count();
            for test in &file.tests {
                assert!(!test.workloads.is_empty(), "{text:?}");
                assert!(test.timeout_seconds > 0.0, "{text:?}");
                assert!((1..=lines).contains(&test.line), "{text:?}");
                for workload in &test.workloads {
                    assert!(!workload.name.is_empty(), "{text:?}");
                    assert!((1..=lines).contains(&workload.line), "{text:?}");
                }
            }
        }
        Err(error) => {
            assert!(!error.findings.is_empty(), "{text:?}");
            assert!(error.to_string().contains("fuzz.toml"), "{text:?}");
        }
    }
}

fn text(u: &mut Unstructured) -> Result<String> {
    let mut text = String::new();
    // Half of the files begin like a good one, so that what comes after it matters.
    if u.arbitrary()? {
        text.push_str("[[test]]\ntestTitle = 'T'\n[[test.workload]]\ntestName = 'External'\nlibraryName = 'x'\n");
    }
    for _ in 0..u.int_in_range(0..=12)? {
        if u.ratio(1, 3)? {
            text.push_str(u.choose(TABLES)?);
        } else {
            text.push_str(u.choose(KEYS)?);
            text.push_str(" = ");
            text.push_str(u.choose(VALUES)?);
        }
        text.push_str(if u.ratio(1, 12)? { "\r\n" } else { "\n" });
    }
    for _ in 0..u.int_in_range(0..=3)? {
        let mut at = u.int_in_range(0..=text.len())?;
        while !text.is_char_boundary(at) {
            at -= 1;
        }
        if u.arbitrary()? {
            text.insert(at, u.arbitrary()?);
        } else if at < text.len() {
            text.remove(at);
        }
    }
    Ok(text)
}
