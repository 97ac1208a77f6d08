//! Where a crate that this program writes takes Shaketable from.
//!
//! A crate is shared with other people, so it must not name a folder of this machine: it names the
//! public address of the repository, or, as long as there is none, a clone by its relative path.
//! The address is [`ADDRESS`], which is the key `repository` of the workspace's `Cargo.toml`:
//! filling that in changes every dependency line that `new` and `init` write.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// The public address of the repository; empty as long as it has none.
const ADDRESS: &str = env!("CARGO_PKG_REPOSITORY");

/// The clone that this program was built from.
const BUILT_FROM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// A repository of Shaketable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::commands) enum Source {
    /// Cargo clones it from this address.
    Address(String),
    /// A clone in this folder, by its absolute path.
    Clone(PathBuf),
}

impl Source {
    /// The repository for a crate in a folder: the one that is asked for, else the public one, else
    /// a clone beside the crate, else the clone that this program was built from.
    pub(in crate::commands) fn find(asked: Option<&str>, folder: &Path) -> Result<Source, String> {
        match asked {
            Some(asked) if asked.contains("://") => return Ok(Source::Address(asked.to_owned())),
            Some(asked) => {
                return clone_in(Path::new(asked)).ok_or_else(|| {
                    format!(
                        "{asked} is no clone of Shaketable: it has no crates/shaketable/Cargo.toml"
                    )
                });
            }
            None if !ADDRESS.is_empty() => return Ok(Source::Address(ADDRESS.to_owned())),
            None => {}
        }
        let beside = absolute(folder).parent().map(|up| up.join("shaketable"));
        let built_from = Some(PathBuf::from(BUILT_FROM)).filter(|path| !is_a_checkout(path));
        let places = [beside, built_from].into_iter().flatten();
        places.filter_map(|place| clone_in(&place)).next().ok_or_else(|| {
            "there is no clone of Shaketable beside the crate: say where one is with --source ../shaketable"
                .to_owned()
        })
    }

    /// The value of a dependency on the crate `shaketable`, for a crate in a folder.
    pub(in crate::commands) fn dependency(&self, folder: &Path, features: &[&str]) -> String {
        let features: Vec<String> = features.iter().map(|name| format!("{name:?}")).collect();
        format!(
            "{{ {}, features = [{}] }}",
            self.place(folder, "crates/shaketable"),
            features.join(", ")
        )
    }

    /// The value that stands in for `foundationdb-sys` in the manifest of a workspace.
    pub(in crate::commands) fn stand_in(&self, root: &Path) -> String {
        format!("{{ {} }}", self.place(root, "sys"))
    }

    fn place(&self, from: &Path, package: &str) -> String {
        match self {
            Source::Address(address) => format!("git = {address:?}"),
            Source::Clone(clone) => format!("path = {:?}", relative(from, &clone.join(package))),
        }
    }
}

fn clone_in(folder: &Path) -> Option<Source> {
    let folder = absolute(folder);
    let is_clone = folder.join("crates/shaketable/Cargo.toml").is_file();
    is_clone.then_some(Source::Clone(folder))
}

/// Whether a folder is one that cargo made for itself, for `cargo install --git`.
fn is_a_checkout(folder: &Path) -> bool {
    let names: Vec<_> = folder.components().map(Component::as_os_str).collect();
    names
        .windows(2)
        .any(|pair| pair == [OsStr::new("git"), OsStr::new("checkouts")])
}

/// The way from one folder to another, with `/` between the names, as manifests have it.
pub(in crate::commands) fn relative(from: &Path, to: &Path) -> String {
    let (from, to) = (absolute(from), absolute(to));
    let common = from
        .components()
        .zip(to.components())
        .take_while(|(a, b)| a == b)
        .count();
    let up = from.components().skip(common).map(|_| "..".to_owned());
    let down = to.components().skip(common);
    let down = down.map(|name| name.as_os_str().to_string_lossy().into_owned());
    let names: Vec<String> = up.chain(down).collect();
    match names.is_empty() {
        true => ".".to_owned(),
        false => names.join("/"),
    }
}

/// An absolute path without `.` and `..`, resolved by name, as cargo resolves them.
pub(in crate::commands) fn absolute(path: &Path) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            other => plain.push(other),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clone_is_named_by_the_way_to_it() {
        let clone = Source::Clone(PathBuf::from("/home/ada/shaketable"));
        assert_eq!(
            clone.dependency(Path::new("/home/ada/tickets"), &["fdb-7_4"]),
            r#"{ path = "../shaketable/crates/shaketable", features = ["fdb-7_4"] }"#
        );
        assert_eq!(
            clone.stand_in(Path::new("/home/ada/work/tickets/")),
            r#"{ path = "../../shaketable/sys" }"#
        );
    }

    #[test]
    fn an_address_is_the_same_from_everywhere() {
        let address = Source::find(Some("https://example.org/x.git"), Path::new("/a")).unwrap();
        let line = r#"{ git = "https://example.org/x.git" }"#;
        assert_eq!(address.stand_in(Path::new("/a/b")), line);
    }

    #[test]
    fn a_folder_that_is_no_clone_is_refused() {
        let error = Source::find(Some("/nowhere"), Path::new("/a")).unwrap_err();
        assert!(
            error.contains("/nowhere is no clone of Shaketable"),
            "{error}"
        );
    }

    #[test]
    fn paths_are_resolved_by_name() {
        assert_eq!(relative(Path::new("/a/b/../c"), Path::new("/a/c")), ".");
        assert_eq!(relative(Path::new("/a/b"), Path::new("/a/c/d")), "../c/d");
        assert!(is_a_checkout(Path::new(
            "/home/ada/.cargo/git/checkouts/shaketable-1/2"
        )));
        assert!(!is_a_checkout(Path::new("/home/ada/git/shaketable")));
    }
}
