//! Which package of a workspace is the layer to test, and what it asks of a simulation.

use crate::commands::new::files::Layer;
use cargo_metadata::semver::Version;
use cargo_metadata::{Dependency, DependencyKind, Metadata, Package, TargetKind};
use std::path::Path;

/// The version of the crate `foundationdb` that Shaketable works with.
const FOUNDATIONDB: Version = Version::new(0, 11, 0);

/// The features that name a FoundationDB, newest first. The first is taken if the layer names none.
const VERSIONS: [&str; 3] = ["fdb-7_4", "fdb-7_3", "fdb-7_1"];

/// A layer, and what it is built with.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) layer: Layer,
    /// The feature of its FoundationDB.
    pub(super) version: String,
    pub(super) has_tokio: bool,
}

/// Finds the layer: the package that is named, else the one that contains the current folder, else
/// the only one that depends on the crate `foundationdb`.
pub(super) fn find(metadata: &Metadata, name: Option<&str>, here: &Path) -> Result<Found, String> {
    let packages = &metadata.packages;
    let on_foundationdb: Vec<&Package> = packages
        .iter()
        .filter(|package| dependency(package, "foundationdb").is_some())
        .collect();
    let inner = on_foundationdb
        .iter()
        .filter(|package| here.starts_with(folder(package)))
        .max_by_key(|package| folder(package).components().count());
    let package = match (name, inner, on_foundationdb.as_slice()) {
        (Some(name), ..) => packages
            .iter()
            .find(|package| package.name.as_str() == name)
            .ok_or_else(|| format!("there is no package `{name}` in this workspace"))?,
        (None, Some(package), _) | (None, None, [package]) => package,
        (None, None, []) => {
            return Err(
                "no package here depends on the crate `foundationdb`: name your layer with -p"
                    .to_owned(),
            );
        }
        (None, None, several) => {
            let names: Vec<&str> = several
                .iter()
                .map(|package| package.name.as_str())
                .collect();
            return Err(format!(
                "several packages depend on the crate `foundationdb`: name your layer with -p ({})",
                names.join(", ")
            ));
        }
    };
    examine(package)
}

fn examine(package: &Package) -> Result<Found, String> {
    let name = package.name.as_str();
    let library = package
        .targets
        .iter()
        .find(|target| target.kind.iter().any(|kind| matches!(kind, TargetKind::Lib | TargetKind::RLib)))
        .ok_or_else(|| {
            format!("`{name}` has no library that a test could call: move what talks to FoundationDB to src/lib.rs")
        })?;
    let client = dependency(package, "foundationdb");
    if let Some(client) = client.filter(|client| !client.req.matches(&FOUNDATIONDB)) {
        return Err(format!(
            "`{name}` uses foundationdb {}; Shaketable works with {FOUNDATIONDB}",
            client.req
        ));
    }
    let features = client.map_or(&[][..], |client| &client.features);
    let version = VERSIONS
        .iter()
        .find(|version| features.iter().any(|name| name == *version));
    Ok(Found {
        layer: Layer {
            package: name.to_owned(),
            library: library.name.replace('-', "_"),
            folder: folder(package).to_owned(),
        },
        version: (*version.unwrap_or(&VERSIONS[0])).to_owned(),
        has_tokio: dependency(package, "tokio").is_some(),
    })
}

fn dependency<'a>(package: &'a Package, name: &str) -> Option<&'a Dependency> {
    let normal = |each: &&Dependency| each.kind == DependencyKind::Normal && each.name == name;
    package.dependencies.iter().find(normal)
}

fn folder(package: &Package) -> &Path {
    package
        .manifest_path
        .parent()
        .expect("a manifest lies in a folder")
        .as_std_path()
}
