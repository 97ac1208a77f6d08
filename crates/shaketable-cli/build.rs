//! Exports the program's symbols to the libraries it loads (`fdb_*`, and the C library's functions
//! for time and randomness), and packs the crate in `sys/` so that the program can carry it.
//!
//! The folder `sys` of this package links to the files of that crate. A published package contains
//! what the links point to, under a manifest of another name: a folder with a `Cargo.toml` would be
//! a package of its own, and left out.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use toml_edit::{DocumentMut, Item, Table};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-rdynamic");
    let here =
        PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let sys = here.join("sys");
    println!("cargo::rerun-if-changed={}", sys.display());

    let manifest = fs::read_to_string(sys.join("manifest.toml")).expect("a link of sys/");
    fs::write(out.join("sys_manifest.toml"), stand_alone(&manifest))
        .expect("OUT_DIR can be written");
    let mut files = vec![("Cargo.toml".to_owned(), out.join("sys_manifest.toml"))];
    for name in ["build.rs", "symbols.csv", "README.md"] {
        files.push((name.to_owned(), sys.join(name)));
    }
    collect(&sys, &sys.join("src"), &mut files);
    files.sort();
    let list: String = files
        .iter()
        .map(|(name, path)| format!("({name:?}, include_str!({path:?})),\n"))
        .collect();
    fs::write(out.join("sys_files.rs"), format!("&[\n{list}]")).expect("OUT_DIR can be written");
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) {
    for entry in fs::read_dir(folder).expect("a folder of sys/").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(root, &path, files);
        } else {
            let name = path
                .strip_prefix(root)
                .expect("below sys/")
                .display()
                .to_string();
            files.push((name, path));
        }
    }
}

/// The manifest without its ties to this workspace, and without what only its own tests need.
fn stand_alone(manifest: &str) -> String {
    let mut manifest: DocumentMut = manifest.parse().expect("the manifest of sys/ is TOML");
    for table in ["dev-dependencies", "example", "test", "lints"] {
        manifest.remove(table);
    }
    let package = manifest["package"].as_table_mut().expect("a package");
    package["edition"] = toml_edit::value("2024");
    for inherited in ["rust-version", "license", "authors", "keywords"] {
        package.remove(inherited);
    }
    manifest["workspace"] = Item::Table(Table::new());
    manifest.to_string()
}
