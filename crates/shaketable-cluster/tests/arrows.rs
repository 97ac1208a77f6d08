//! The modules and crates of this repository, and which of them may know which.
//!
//! Dependencies point one way: a module knows only those that its row names. Cargo forbids cycles
//! of crates but not a needless arrow, and inside a crate it forbids nothing, so this test reads
//! the sources. Everything a file mentions counts, in a `use` line or in the middle of an
//! expression. Tests are exempt: a test of a server may well act as a client.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Each crate, and the crates of this repository that its sources may mention.
const CRATES: &[(&str, &[&str])] = &[
    ("fdb_c", &["shaketable_fdbc"]),
    (
        "shaketable",
        &[
            "shaketable_abi",
            "shaketable_fdbc",
            "shaketable_host",
            "shaketable_macros",
            "shaketable_record",
        ],
    ),
    ("shaketable_abi", &[]),
    (
        "shaketable_cli",
        &[
            "shaketable_explain",
            "shaketable_host",
            "shaketable_kernel",
            "shaketable_page",
            "shaketable_record",
            "shaketable_serve",
        ],
    ),
    ("shaketable_cluster", &["shaketable_kernel"]),
    (
        "shaketable_fdbc",
        &[
            "shaketable_cluster",
            "shaketable_kernel",
            "shaketable_record",
            "shaketable_serve",
        ],
    ),
    (
        "shaketable_host",
        &[
            "shaketable_abi",
            "shaketable_cluster",
            "shaketable_explain",
            "shaketable_fdbc",
            "shaketable_kernel",
            "shaketable_minimise",
            "shaketable_page",
            "shaketable_record",
        ],
    ),
    ("shaketable_explain", &["shaketable_record"]),
    ("shaketable_kernel", &[]),
    ("shaketable_minimise", &[]),
    // The expansion of `#[shaketable::sim_test]` names the crate it is written for.
    ("shaketable_macros", &["shaketable"]),
    (
        "shaketable_page",
        &["shaketable_explain", "shaketable_record"],
    ),
    ("shaketable_record", &[]),
    (
        "shaketable_serve",
        &["shaketable_cluster", "shaketable_kernel"],
    ),
];

/// The modules of this crate, and the other modules that each may mention. The client and the
/// servers know nothing of each other: they meet in `proto`, and agree on `data`.
const ROOMS: &[(&str, &[&str])] = &[
    ("error", &["release"]),
    ("knobs", &[]),
    ("process", &[]),
    ("release", &[]),
    ("short", &[]),
    ("stress", &["knobs"]),
    ("truth", &[]),
    ("proto", &["error", "truth"]),
    ("history", &["proto"]),
    ("keeper", &["data", "proto"]),
    ("data", &["error", "proto", "short"]),
    (
        "client",
        &[
            "data", "error", "knobs", "process", "proto", "release", "truth",
        ],
    ),
    (
        "server",
        &[
            "data", "error", "history", "keeper", "knobs", "process", "proto", "stress", "truth",
        ],
    ),
    (
        "distributor",
        &["client", "data", "error", "process", "proto", "server"],
    ),
    (
        "cluster",
        &[
            "client",
            "distributor",
            "knobs",
            "process",
            "proto",
            "server",
        ],
    ),
    (
        "checker",
        &["client", "data", "error", "history", "process", "proto"],
    ),
    ("saboteur", &["cluster", "kill", "knobs", "proto", "server"]),
    (
        "faults",
        &[
            "client", "error", "kill", "process", "proto", "saboteur", "server",
        ],
    ),
    ("time_keeper", &["client", "data", "proto"]),
];

/// The modules of this crate that see the kernel: where processes are made, where the view of one
/// is, and where the power to break them is. Code that runs on a process is in none of them.
const SEE_THE_KERNEL: &[&str] = &["cluster", "process", "saboteur"];

/// What passes from one process to another without a message, and the files that may use it; see
/// `process/exceptions.rs` for the reasons.
const EXCEPTIONS: &[(&str, &[&str])] = &[
    (
        "Announced",
        &[
            "client/database.rs",
            "cluster.rs",
            "server/controller.rs",
            "server/worker.rs",
        ],
    ),
    ("Quiet", &["server/env.rs"]),
    ("quiet_seconds_since", &["server/storage/serving.rs"]),
    ("note_batches", &["server/sequencer.rs"]),
    (
        "is_truly_alive",
        &[
            "server/controller.rs",
            "server/election.rs",
            "server/recovery/recruitment.rs",
        ],
    ),
    ("has_died_since", &["server/election.rs"]),
    ("held_until", &["server/log.rs"]),
    ("clog_towards", &["server/log.rs"]),
    ("close_connection", &["server/commit_proxy.rs"]),
];

#[test]
fn no_crate_mentions_one_that_it_must_not_know() {
    let names: Vec<&str> = CRATES.iter().map(|(name, _)| *name).collect();
    for (name, allowed) in CRATES {
        let sources = crates().join(name.replace("_", if *name == "fdb_c" { "_" } else { "-" }));
        for (file, code) in product_code(&sources.join("src")) {
            let known: BTreeSet<&str> = allowed.iter().copied().chain([*name]).collect();
            for other in &names {
                let mentioned =
                    words(&code).any(|word| word == *other) && code.contains(&format!("{other}::"));
                assert!(
                    !mentioned || known.contains(other),
                    "{} mentions {other}, which {name} must not know",
                    file.display()
                );
            }
        }
    }
}

#[test]
fn every_room_of_the_cluster_knows_only_those_below_it() {
    let allowed: BTreeMap<&str, &[&str]> = ROOMS.iter().copied().collect();
    let mut found = BTreeMap::<String, BTreeSet<String>>::new();
    for (file, code) in cluster_sources() {
        let module = module_of(&file);
        let Some(room) = module.first() else {
            continue; // the root names all of them
        };
        let may = allowed.get(room.as_str());
        let may = may.unwrap_or_else(|| panic!("{room} is a new room: give it a row here"));
        for other in rooms_mentioned(&code, &module) {
            assert!(
                other == *room || may.contains(&other.as_str()),
                "{} mentions {other}, which {room} must not know",
                file.display()
            );
            found.entry(room.clone()).or_default().insert(other);
        }
    }
    // A row that allows an unused dependency invites its use.
    let needless: Vec<_> = ROOMS
        .iter()
        .flat_map(|(room, may)| may.iter().map(|other| (*room, *other)))
        .filter(|(room, other)| !found.get(*room).is_some_and(|used| used.contains(*other)))
        .collect();
    assert!(
        needless.is_empty(),
        "no longer needed, take them off their rows: {needless:?}"
    );
}

#[test]
fn what_runs_on_a_process_does_not_see_the_kernel() {
    for (path, code) in cluster_sources() {
        let module = module_of(&path);
        let sees_it = module
            .first()
            .is_none_or(|room| SEE_THE_KERNEL.contains(&room.as_str()));
        assert!(
            sees_it || !mentions_kernel(&code),
            "{} mentions the kernel: it must get by with its own process",
            path.display()
        );
    }
    assert!(mentions_kernel("use shaketable_kernel::{Kernel, Time};"));
    assert!(mentions_kernel("cluster.kernel().kill(process)"));
    assert!(!mentions_kernel("use shaketable_kernel::Time;"));
}

#[test]
fn an_exception_is_used_only_where_it_is_named() {
    let definitions = ["process/exceptions.rs", "server/env.rs"];
    for (exception, files) in EXCEPTIONS {
        let users: BTreeSet<String> = cluster_sources()
            .into_iter()
            .filter(|(_, code)| words(code).any(|word| word == *exception))
            .map(|(path, _)| path.to_string_lossy().into_owned())
            .filter(|path| files.contains(&path.as_str()) || !definitions.contains(&path.as_str()))
            .collect();
        let named: BTreeSet<String> = files.iter().map(|file| (*file).to_owned()).collect();
        assert_eq!(users, named, "{exception} is used by the files on the left");
    }
}

#[test]
fn the_rows_themselves_point_one_way() {
    for rows in [CRATES, ROOMS] {
        let rows: BTreeMap<&str, &[&str]> = rows.iter().copied().collect();
        for start in rows.keys().filter(|name| **name != "shaketable_macros") {
            let mut reached = BTreeSet::new();
            let mut next: Vec<&str> = rows[start].to_vec();
            while let Some(room) = next.pop() {
                assert_ne!(room, *start, "a circle through {start}");
                if reached.insert(room) && room != "shaketable_macros" {
                    next.extend(rows.get(room).copied().unwrap_or_default());
                }
            }
        }
    }
}

#[test]
fn an_arrow_is_seen_however_it_is_written() {
    let module = ["server".to_owned(), "storage".to_owned(), "disk".to_owned()];
    for code in [
        "use crate::client::Database;",
        "use crate::{knobs::Knobs, client::{Database, Transaction}};",
        "use crate::{\n    client,\n};",
        "fn f() { crate::client::mapper::x() }",
        "use super::super::super::client::Database;",
        "pub(in crate::client) fn f() {}",
    ] {
        assert!(rooms_mentioned(code, &module).contains("client"), "{code}");
    }
    for code in [
        "// use crate::client::Database;",
        "/// See [`crate::client`].\nfn f() {}",
        "use super::client::Database;",
        "use crate::server::client;",
        "let client = 1;",
    ] {
        let code = without_comments_and_tests(code);
        assert!(
            !rooms_mentioned(&code, &module).contains("client"),
            "{code}"
        );
    }
    let tests = "fn f() {}\n#[cfg(test)]\nmod tests {\n    use crate::client::Database;\n}\n";
    assert!(!without_comments_and_tests(tests).contains("client"));
}

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The sources of this crate, by their paths below `src`.
fn cluster_sources() -> Vec<(PathBuf, String)> {
    let source = crates().join("shaketable-cluster/src");
    let below = |file: PathBuf| {
        let path = file.strip_prefix(&source).expect("it was found there");
        path.to_owned()
    };
    product_code(&source)
        .into_iter()
        .map(|(file, code)| (below(file), code))
        .collect()
}

fn mentions_kernel(code: &str) -> bool {
    words(code).any(|word| word == "Kernel") || code.contains(".kernel()")
}

/// The sources below a folder that are part of the product, without comments and tests.
fn product_code(folder: &Path) -> Vec<(PathBuf, String)> {
    let entries =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.expect("it is listed").path())
        .collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        let name = path
            .file_stem()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name == "tests" || name.ends_with("_tests") {
            continue;
        }
        if path.is_dir() {
            found.extend(product_code(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source can be read");
            found.push((path, without_comments_and_tests(&text)));
        }
    }
    found
}

/// Drops what follows `//`, and a module of tests at the end of a file. A `//` in a string hides
/// the rest of its line, which is never a path.
fn without_comments_and_tests(text: &str) -> String {
    let product = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    let lines = product
        .lines()
        .map(|line| line.split("//").next().unwrap_or_default());
    lines.collect::<Vec<_>>().join("\n")
}

/// The module of a file: `server/storage/mod.rs` is `server::storage`.
fn module_of(path: &Path) -> Vec<String> {
    let parts = path.with_extension("");
    let mut parts: Vec<String> = parts
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib")) {
        parts.pop();
    }
    parts
}

/// The modules that code mentions by a path from the root of the crate, or up from its own module.
fn rooms_mentioned(code: &str, module: &[String]) -> BTreeSet<String> {
    let up = "super::".repeat(module.len());
    let from_below: Vec<&str> = code.split(up.as_str()).skip(1).collect();
    let from_root = code.split("crate::").skip(1);
    from_root.chain(from_below).flat_map(first_names).collect()
}

/// The first names of a path, or of each path of a group: both of `{a::b, c::{d, e}}`.
fn first_names(path: &str) -> Vec<String> {
    let Some(group) = path.strip_prefix('{') else {
        return words(path).take(1).map(str::to_owned).collect();
    };
    let mut names = Vec::new();
    let mut depth = 1;
    let mut begins = true;
    for (index, character) in group.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => begins = true,
            _ if begins && !character.is_whitespace() => {
                names.extend(words(&group[index..]).take(1).map(str::to_owned));
                begins = false;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    names
}

fn words(code: &str) -> impl Iterator<Item = &str> {
    code.split(|character: char| !character.is_alphanumeric() && character != '_')
        .filter(|word| !word.is_empty())
}
