//! What the manifest of a workspace needs, added to what it says already.

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, Value};

/// The crates in which a simulation spends its time. All dependencies would take nearly twice as
/// long to build, macros and their parsers among them, for a sixth more seeds a second. What only
/// their authors need, variables in a debugger and a quick build after a change, would take a
/// quarter of the first build.
const SIMULATOR: [&str; 4] = [
    "shaketable-cluster",
    "shaketable-fdbc",
    "shaketable-host",
    "shaketable-kernel",
];

/// Adds a member, the stand-in for `foundationdb-sys` and an optimised simulator, each unless it is
/// there. Returns the manifest and what was added, in words.
pub(super) fn edit(
    manifest: &str,
    member: &str,
    stand_in: &str,
) -> Result<(String, Vec<&'static str>), String> {
    let mut manifest: DocumentMut = manifest
        .parse()
        .map_err(|error| format!("the manifest of the workspace is not TOML: {error}"))?;
    let stand_in: InlineTable = match stand_in.parse::<Value>() {
        Ok(Value::InlineTable(table)) => table,
        _ => unreachable!("a dependency is written as an inline table"),
    };
    let mut added = Vec::new();
    let workspace = table(manifest.as_table_mut(), "workspace")?;
    let members = workspace
        .entry("members")
        .or_insert(Item::Value(Array::new().into()))
        .as_array_mut()
        .ok_or("`workspace.members` is no list")?;
    if !members
        .iter()
        .filter_map(Value::as_str)
        .any(|each| covers(each, member))
    {
        members.push(member);
        added.push("a member");
    }
    let patches = table(implicit(manifest.as_table_mut(), "patch")?, "crates-io")?;
    if !patches.contains_key("foundationdb-sys") {
        patches.insert("foundationdb-sys", Item::Value(stand_in.into()));
        comment(
            patches,
            "foundationdb-sys",
            "# For tests: the published crate wants libclang and FoundationDB on the machine.\n\
             # Programs still use the FoundationDB client that is installed.\n",
        );
        added.push("a stand-in for foundationdb-sys");
    }
    let profiles = implicit(manifest.as_table_mut(), "profile")?;
    let packages = table(implicit(profiles, "dev")?, "package")?;
    let is_optimised = |name: &&str| packages.contains_key(name);
    if !SIMULATOR.iter().chain(&["*"]).any(is_optimised) {
        packages.set_implicit(false);
        if packages.is_empty() {
            let why = "\n# The simulator, optimised, runs ten times as many seeds.\n";
            packages.decor_mut().set_prefix(why);
        }
        for name in SIMULATOR {
            let mut package = InlineTable::new();
            package.insert("opt-level", 2.into());
            package.insert("codegen-units", 4.into());
            package.insert("debug", "line-tables-only".into());
            package.insert("incremental", false.into());
            packages.insert(name, Item::Value(package.into()));
        }
        added.push("an optimised simulator in `cargo test`");
    }
    Ok((manifest.to_string(), added))
}

/// Whether an entry of `members` means a folder: by its name, or as `crates/*`.
fn covers(entry: &str, member: &str) -> bool {
    let parent = member.rsplit_once('/').map_or("", |(parent, _)| parent);
    entry.trim_start_matches("./").trim_end_matches('/') == member
        || entry
            .strip_suffix("/*")
            .is_some_and(|folder| folder == parent)
        || (entry == "*" && parent.is_empty())
}

fn table<'a>(parent: &'a mut Table, key: &str) -> Result<&'a mut Table, String> {
    parent
        .entry(key)
        .or_insert(Item::Table(Table::new()))
        .as_table_mut()
        .ok_or_else(|| format!("`{key}` in the manifest of the workspace is no table"))
}

/// A table that needs no heading of its own.
fn implicit<'a>(parent: &'a mut Table, key: &str) -> Result<&'a mut Table, String> {
    let is_new = !parent.contains_key(key);
    let table = table(parent, key)?;
    if is_new {
        table.set_implicit(true);
    }
    Ok(table)
}

fn comment(table: &mut Table, key: &str, text: &str) {
    if let Some(mut key) = table.key_mut(key) {
        key.leaf_decor_mut().set_prefix(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAND_IN: &str = r#"{ path = "../shaketable/sys" }"#;

    #[test]
    fn a_package_becomes_a_workspace() {
        let before = "[package]\nname = \"tickets\"\n\n[dependencies]\n# the client\nfoundationdb = \"0.11\"\n";
        let (after, added) = edit(before, "tickets-simulation", STAND_IN).unwrap();
        insta::assert_snapshot!(format!("{added:?}\n{after}"));
    }

    #[test]
    fn what_is_there_stays() {
        let before = "[workspace]\nmembers = [\"crates/*\"] # all\n\n[patch.crates-io]\nfoundationdb-sys = { path = \"mine\" }\n\n\
                      [profile.dev.package.\"*\"]\nopt-level = 1\n";
        let (after, added) = edit(before, "crates/tickets-simulation", STAND_IN).unwrap();
        assert_eq!((after.as_str(), added.len()), (before, 0));
    }

    #[test]
    fn other_packages_keep_their_profile() {
        let before =
            "[workspace]\nmembers = [\"*\"]\n\n[profile.dev.package.image]\nopt-level = 3\n";
        let (after, added) = edit(before, "tickets-simulation", STAND_IN).unwrap();
        assert!(
            after.starts_with("[workspace]\nmembers = [\"*\"]\n"),
            "{after}"
        );
        assert_eq!(added.len(), 2, "{added:?}");
        let manifest: DocumentMut = after.parse().expect(&after);
        let level = |name| manifest["profile"]["dev"]["package"][name]["opt-level"].as_integer();
        assert_eq!(
            (level("image"), level("shaketable-kernel")),
            (Some(3), Some(2))
        );
        let (again, added) = edit(&after, "tickets-simulation", STAND_IN).unwrap();
        assert_eq!((again, added.len()), (after, 0));
    }

    #[test]
    fn members_are_named_or_matched() {
        assert!(covers("*", "a") && covers("crates/*", "crates/a") && covers("./a/", "a"));
        assert!(!covers("crates/*", "a") && !covers("*", "crates/a") && !covers("b", "a"));
    }
}
