//! `symbols.csv` is the list of what a libfdb_c exports and what its header declares, per version.
//! The stub is made from it; the declarations are written by hand. These tests hold the three
//! together.

use object::{Object, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// The API versions that a header exists for, oldest first.
const VERSIONS: [u32; 10] = [510, 520, 600, 610, 620, 630, 700, 710, 730, 740];

/// A range of versions as the table writes it: `510-600`, or `510-` for one that has not ended.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Range {
    first: u32,
    last: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Range> {
        let (first, last) = text.split_once('-')?;
        let last = if last.is_empty() {
            Ok(u32::MAX)
        } else {
            last.parse()
        };
        Some(Range {
            first: first.parse().unwrap(),
            last: last.unwrap(),
        })
    }

    fn contains(self, version: u32) -> bool {
        self.first <= version && version <= self.last
    }
}

struct Row {
    exported: Range,
    declared: Option<Range>,
}

fn table() -> BTreeMap<String, Row> {
    let text = fs::read_to_string(manifest("symbols.csv")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("symbol,exported,declared"));
    let mut rows = BTreeMap::new();
    for line in lines {
        let [symbol, exported, declared] = line.split(',').collect::<Vec<_>>()[..] else {
            panic!("expected three columns, found {line:?}");
        };
        let exported = Range::parse(exported)
            .unwrap_or_else(|| panic!("expected a range of versions, found {line:?}"));
        let row = Row {
            exported,
            declared: Range::parse(declared),
        };
        assert!(
            rows.insert(symbol.to_owned(), row).is_none(),
            "{symbol} stands twice in the table"
        );
    }
    rows
}

/// The functions declared in `src/functions/`, each with the versions that its `cfg` lets through.
fn declarations() -> BTreeMap<String, BTreeSet<u32>> {
    let mut functions: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for entry in fs::read_dir(manifest("src/functions")).unwrap() {
        let source = fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut condition = "";
        // Whatever stands before a file's first `cfg` of its own applies to all of it.
        let file = source
            .lines()
            .find_map(|line| cfg(line, "#!"))
            .unwrap_or("");
        for line in source.lines().map(str::trim) {
            if let Some(found) = cfg(line, "#") {
                condition = found;
            } else if let Some(rest) = line.strip_prefix("pub fn ") {
                let name = rest.split('(').next().unwrap();
                let versions = VERSIONS
                    .into_iter()
                    .filter(|v| holds(file, *v) && holds(condition, *v));
                functions
                    .entry(name.to_owned())
                    .or_default()
                    .extend(versions);
                condition = "";
            } else if line.starts_with("use ") {
                condition = "";
            }
        }
    }
    functions
}

/// The condition of a line such as `#[cfg(since_710)]`.
fn cfg<'a>(line: &'a str, hash: &str) -> Option<&'a str> {
    line.strip_prefix(hash)?
        .strip_prefix("[cfg(")?
        .strip_suffix(")]")
}

/// Whether a condition made of `since_<version>`, `not` and `all` holds for a version.
fn holds(condition: &str, version: u32) -> bool {
    let condition = condition.trim();
    let inside = |name: &str| {
        condition
            .strip_prefix(name)?
            .strip_prefix('(')?
            .strip_suffix(')')
    };
    if condition.is_empty() {
        true
    } else if let Some(parts) = inside("all") {
        parts.split(',').all(|part| holds(part, version))
    } else if let Some(part) = inside("not") {
        !holds(part, version)
    } else {
        let since = condition
            .strip_prefix("since_")
            .and_then(|since| since.parse::<u32>().ok());
        since.unwrap_or_else(|| panic!("expected since_<version>, found {condition:?}")) <= version
    }
}

fn manifest(path: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

#[test]
fn every_function_is_declared_for_exactly_the_versions_whose_header_has_it() {
    let declarations = declarations();
    for (symbol, row) in &table() {
        let expected: BTreeSet<u32> = VERSIONS
            .into_iter()
            .filter(|v| row.declared.is_some_and(|d| d.contains(*v)))
            .collect();
        let found = declarations.get(symbol).cloned().unwrap_or_default();
        assert_eq!(found, expected, "{symbol}");
    }
    let strangers: Vec<_> = declarations
        .keys()
        .filter(|name| !table().contains_key(*name))
        .collect();
    assert_eq!(
        strangers,
        Vec::<&String>::new(),
        "declared, but not in symbols.csv"
    );
}

#[test]
fn no_function_is_declared_for_a_version_whose_library_lacks_it() {
    for (symbol, row) in table() {
        if let Some(declared) = row.declared {
            assert!(row.exported.first <= declared.first, "{symbol}");
            assert!(row.exported.last >= declared.last.min(740), "{symbol}");
        }
    }
}

#[test]
fn each_release_exports_what_was_found_in_its_sources() {
    let facts = fs::read_to_string(manifest("../conformance/facts/symbols.csv")).unwrap();
    let mut lines = facts
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let facts: BTreeMap<&str, Vec<&str>> = lines.map(|columns| (columns[0], columns)).collect();
    for (release, version, count) in [
        ("7.1", 710, 80),
        ("7.3", 730, 111),
        ("7.4", 740, 111),
        ("main", 800, 96),
    ] {
        let column = header.iter().position(|name| *name == release).unwrap();
        let expected: BTreeSet<&str> = facts
            .iter()
            .filter(|(_, columns)| columns[column] == "1")
            .map(|(symbol, _)| *symbol)
            .collect();
        let table = table();
        let found: BTreeSet<&str> = table
            .iter()
            .filter(|(_, row)| row.exported.contains(version))
            .map(|(symbol, _)| symbol.as_str())
            .collect();
        assert_eq!(found, expected, "{release}");
        assert_eq!(found.len(), count, "{release}");
    }
}

#[test]
fn the_stub_defines_every_function_of_the_table_and_nothing_else_called_fdb() {
    let stub = Path::new(env!("OUT_DIR")).join(format!(
        "{}fdb_c{}",
        std::env::consts::DLL_PREFIX,
        std::env::consts::DLL_SUFFIX
    ));
    if std::env::var_os("FDB_CLIENT_LIB_PATH").is_some() {
        panic!(
            "expected to look at the stub, found FDB_CLIENT_LIB_PATH set: unset it for this test"
        );
    }
    let bytes = fs::read(&stub).unwrap_or_else(|error| panic!("{}: {error}", stub.display()));
    let file = object::File::parse(&*bytes).unwrap();
    let defined: BTreeSet<String> = file
        .dynamic_symbols()
        .filter(|symbol| symbol.is_definition())
        .map(|symbol| symbol.name().unwrap().to_owned())
        .filter(|name| name.starts_with("fdb_"))
        .collect();
    let expected: BTreeSet<String> = table().into_keys().collect();
    assert_eq!(defined, expected);
}
