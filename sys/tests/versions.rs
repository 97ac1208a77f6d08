//! `if_cfg_api_versions!` keeps and drops code by the features of the crate that calls it. The
//! tests of this package are compiled with `fdb-7_4`, because the crate `foundationdb` that they
//! use asks for it.

use foundationdb_sys::{FDB_API_VERSION, if_cfg_api_versions};

if_cfg_api_versions! {min = 730 =>
    /// An item with an attribute of its own.
    #[inline]
    fn kept() -> u32 {
        1
    }
}

if_cfg_api_versions! {max = 730 =>
    fn kept() -> u32 {
        2
    }
}

#[test]
fn the_selected_version_is_a_constant() {
    assert_eq!(FDB_API_VERSION, 740);
}

#[test]
fn an_item_is_kept_for_the_versions_of_its_range_alone() {
    assert_eq!(kept(), 1);
}

#[test]
fn an_expression_takes_one_branch_and_never_compiles_the_other() {
    assert_eq!(
        if_cfg_api_versions!(min = 740 => { "kept" } else { no_such_name }),
        "kept"
    );
    assert_eq!(
        if_cfg_api_versions!(max = 740 => { "kept" } else { no_such_name }),
        "kept"
    );
    assert_eq!(
        if_cfg_api_versions!(min = 510, max = 740 => { "kept" } else { no_such_name }),
        "kept"
    );
    assert_eq!(
        if_cfg_api_versions!(max = 730 => { no_such_name } else { "kept" }),
        "kept"
    );
    assert_eq!(
        if_cfg_api_versions!(min = 510, max = 600 => { no_such_name } else { "kept" }),
        "kept"
    );
}

#[test]
fn a_feature_keeps_code_outside_the_range() {
    assert_eq!(
        if_cfg_api_versions!(max = 510, feature = "fdb-7_4" => { "kept" } else { no_such_name }),
        "kept"
    );
    assert_eq!(
        if_cfg_api_versions!(max = 510, feature = "fdb-7_3" => { no_such_name } else { "kept" }),
        "kept"
    );
}

#[test]
fn several_statements_are_kept_or_dropped_together() {
    let mut count = 0;
    if_cfg_api_versions!(min = 700 =>
        count += 1;
        count += 10
    );
    if_cfg_api_versions!(max = 700 =>
        count += 100;
        count += 1000
    );
    assert_eq!(count, 11);
}
