//! What the library exports, compared with FoundationDB's own list.

use shaketable_fdbc::{EXPORTS, keep_symbols};
use std::collections::BTreeSet;

const FACTS: &str = include_str!("../../../conformance/facts/symbols.csv");

/// The symbols that stand under one of these columns of the facts.
fn symbols(columns: &[&str]) -> BTreeSet<&'static str> {
    let mut lines = FACTS
        .lines()
        .map(|line| line.split(',').collect::<Vec<_>>());
    let header = lines.next().unwrap();
    let columns: Vec<usize> = columns
        .iter()
        .map(|column| header.iter().position(|name| name == column).unwrap())
        .collect();
    lines
        .filter(|line| columns.iter().any(|column| line[*column] == "1"))
        .map(|line| line[0])
        .collect()
}

#[test]
fn every_symbol_of_7_1_to_7_4_is_exported_and_what_bindings_look_up() {
    let exported: BTreeSet<&str> = EXPORTS.iter().map(|export| export.name).collect();
    let wanted = symbols(&["7.1", "7.3", "7.4", "py_7.3.69", "py_7.4.6", "py_8.0.0"]);
    assert_eq!(exported, wanted);
    assert_eq!(exported.len(), 112);
    assert_eq!(keep_symbols(), exported.len());
}

#[test]
fn no_two_names_stand_for_the_same_place_by_mistake() {
    assert!(EXPORTS.iter().all(|export| !export.address.is_null()));
    assert!(EXPORTS.is_sorted_by_key(|export| export.name));
}

#[test]
fn a_program_that_keeps_the_symbols_offers_them_to_the_libraries_it_loads() {
    keep_symbols();
    let this_program = libloading::os::unix::Library::this();
    for export in EXPORTS {
        // SAFETY: the symbol is only compared, never called.
        let found = unsafe { this_program.get::<*const ()>(export.name.as_bytes()) }
            .unwrap_or_else(|error| panic!("{}: {error}", export.name));
        assert_eq!(
            found.into_raw().cast_const().cast(),
            export.address,
            "{}",
            export.name
        );
    }
}
