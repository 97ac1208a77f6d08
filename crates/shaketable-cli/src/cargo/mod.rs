//! Building workload libraries with cargo.
//!
//! A test file names a library, not how to build it. If the file is in a cargo package (or its
//! workspace) that has a shared-library target of that name, the library is built first and used
//! from where cargo puts it. The crate `foundationdb-sys` as published needs libclang and libfdb_c;
//! a package that has not replaced it gets the stand-in that this program carries, for this build
//! only.

use crate::args::BuildArgs;
use cargo_metadata::{CrateType, Message, Metadata, MetadataCommand, Package, Target, TargetKind};
use shaketable_host::testfile::{EXTERNAL, TestFile};
use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

mod line_tables;
mod sys;

/// Why there is no library.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// cargo cannot be run.
    #[error(
        "cannot run cargo: install Rust (https://rustup.rs), or give --no-build and a library that is built"
    )]
    NoCargo(#[source] std::io::Error),
    /// The manifest cannot be read.
    #[error("cannot read the cargo workspace")]
    Metadata(#[source] cargo_metadata::Error),
    /// The package is not there.
    #[error("there is no package `{0}` in the workspace of {1}")]
    NoPackage(String, PathBuf),
    /// The build failed; cargo has printed why.
    #[error("the workload library `{0}` does not build: cargo has printed why")]
    Failed(String),
    /// The build made no library.
    #[error(
        "package `{package}` makes no shared library `{library}`: set `crate-type = [\"cdylib\"]` for a target of that name, or correct libraryName in the test file"
    )]
    NoLibrary {
        /// The package.
        package: String,
        /// The library.
        library: String,
    },
    /// The stand-in cannot be written.
    #[error("cannot write the stand-in for foundationdb-sys to {}", .0.display())]
    StandIn(PathBuf, #[source] std::io::Error),
}

/// A target that makes a shared library.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Product {
    package: String,
    example: Option<String>,
    library: String,
}

/// Builds what the test file's External workloads need, where a package makes it. Returns paths by
/// library name.
pub fn build_for(
    file: &TestFile,
    args: &BuildArgs,
) -> Result<BTreeMap<String, PathBuf>, BuildError> {
    let mut built = BTreeMap::new();
    if args.no_build {
        return Ok(built);
    }
    let wanted: Vec<&str> = file
        .tests
        .iter()
        .flat_map(|test| &test.workloads)
        .filter(|workload| workload.name == EXTERNAL)
        .filter_map(|workload| workload.option("libraryName"))
        .collect();
    let Some(workspace) = Workspace::find(&file.path, args)? else {
        return Ok(built);
    };
    for library in wanted {
        if built.contains_key(library) {
            continue;
        }
        if let Some(product) = workspace.product(library, args)? {
            built.insert(library.to_owned(), workspace.build(&product, args)?);
        }
    }
    Ok(built)
}

/// The test files of a package: TOML files with `[[test]]` tables, in its folder and below.
pub fn test_files(args: &BuildArgs) -> Result<Vec<PathBuf>, BuildError> {
    let Some(workspace) = Workspace::find(Path::new("Cargo.toml"), args)? else {
        return Ok(Vec::new());
    };
    let package = match &args.package {
        Some(name) => workspace.package(name)?,
        None => match workspace.package_of(&std::env::current_dir().unwrap_or_default()) {
            Some(package) => package,
            None => return Ok(Vec::new()),
        },
    };
    let folder = package
        .manifest_path
        .parent()
        .map_or_else(PathBuf::new, |path| path.as_std_path().to_owned());
    let here = std::env::current_dir().unwrap_or_default();
    let files = crate::list::find_test_files(&[folder]);
    Ok(files
        .into_iter()
        .filter(|file| match &args.example {
            Some(example) => names_library(file, example),
            None => true,
        })
        .map(|file| file.strip_prefix(&here).map(Path::to_owned).unwrap_or(file))
        .collect())
}

fn names_library(file: &Path, library: &str) -> bool {
    let library = library.replace('-', "_");
    TestFile::read(file).is_ok_and(|file| {
        file.tests
            .iter()
            .flat_map(|test| &test.workloads)
            .any(|workload| workload.option("libraryName") == Some(&library))
    })
}

struct Workspace {
    metadata: Metadata,
    manifest: PathBuf,
    /// The package that contains the test file.
    nearest: Option<String>,
}

impl Workspace {
    /// The workspace of the nearest manifest above a test file.
    fn find(file: &Path, args: &BuildArgs) -> Result<Option<Workspace>, BuildError> {
        let manifest = match &args.manifest_path {
            Some(manifest) => manifest.clone(),
            None => match nearest_manifest(file) {
                Some(manifest) => manifest,
                None => return Ok(None),
            },
        };
        let metadata = MetadataCommand::new()
            .manifest_path(&manifest)
            .no_deps()
            .exec()
            .map_err(|error| match error {
                cargo_metadata::Error::Io(error) => BuildError::NoCargo(error),
                other => BuildError::Metadata(other),
            })?;
        let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_owned());
        let mut workspace = Workspace {
            metadata,
            manifest,
            nearest: None,
        };
        workspace.nearest = workspace
            .package_of(&absolute)
            .map(|package| package.name.to_string());
        Ok(Some(workspace))
    }

    fn package(&self, name: &str) -> Result<&Package, BuildError> {
        let mut packages = self.metadata.packages.iter();
        packages
            .find(|package| package.name.as_str() == name)
            .ok_or_else(|| BuildError::NoPackage(name.to_owned(), self.manifest.clone()))
    }

    /// The package with the innermost folder that contains a path.
    fn package_of(&self, path: &Path) -> Option<&Package> {
        let folder = |package: &&Package| {
            package
                .manifest_path
                .parent()
                .map(|folder| folder.as_std_path().to_owned())
        };
        self.metadata
            .packages
            .iter()
            .filter(|package| folder(package).is_some_and(|folder| path.starts_with(folder)))
            .max_by_key(|package| folder(package).map_or(0, |folder| folder.components().count()))
    }

    /// The target that makes a library: of the named package, else of the nearest one, else of any
    /// in the workspace.
    fn product(&self, library: &str, args: &BuildArgs) -> Result<Option<Product>, BuildError> {
        if let Some(name) = &args.package {
            let package = self.package(name)?;
            let product = product_of(package, library, args.example.as_deref());
            return product.map(Some).ok_or_else(|| BuildError::NoLibrary {
                package: name.clone(),
                library: library.to_owned(),
            });
        }
        let nearest = self.nearest.as_ref();
        let (near, far): (Vec<_>, Vec<_>) = self
            .metadata
            .packages
            .iter()
            .partition(|package| Some(&package.name.to_string()) == nearest);
        let packages = near.into_iter().chain(far);
        Ok(packages
            .filter_map(|package| product_of(package, library, args.example.as_deref()))
            .next())
    }

    fn build(&self, product: &Product, args: &BuildArgs) -> Result<PathBuf, BuildError> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut command = Command::new(cargo);
        command
            .args(["build", "--message-format", "json-render-diagnostics"])
            .arg("--manifest-path")
            .arg(&self.manifest)
            .args(["--package", &product.package, "--profile", &args.profile]);
        match &product.example {
            Some(example) => command.args(["--example", example]),
            None => command.arg("--lib"),
        };
        for features in &args.features {
            command.args(["--features", features]);
        }
        line_tables::ask_for(&mut command, &self.metadata, &args.profile);
        let stand_in = sys::StandIn::prepare(&self.metadata)?;
        stand_in.apply(&mut command);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(BuildError::NoCargo)?;
        let output = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut path = None;
        for message in Message::parse_stream(output).map_while(Result::ok) {
            if let Message::CompilerArtifact(artifact) = message
                && artifact.target.name.replace('-', "_") == product.library
            {
                let suffix = std::env::consts::DLL_SUFFIX;
                path = artifact
                    .filenames
                    .into_iter()
                    .find(|file| file.as_str().ends_with(suffix))
                    .or(path);
            }
        }
        let status = child.wait().map_err(BuildError::NoCargo)?;
        drop(stand_in);
        if !status.success() {
            return Err(BuildError::Failed(product.library.clone()));
        }
        path.map(cargo_metadata::camino::Utf8PathBuf::into_std_path_buf)
            .ok_or_else(|| BuildError::NoLibrary {
                package: product.package.clone(),
                library: product.library.clone(),
            })
    }
}

fn nearest_manifest(file: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(file).ok()?;
    let folders = absolute.ancestors().skip(1);
    folders
        .map(|folder| folder.join("Cargo.toml"))
        .find(|manifest| manifest.is_file())
}

fn product_of(package: &Package, library: &str, example: Option<&str>) -> Option<Product> {
    let makes = |target: &&Target| {
        target.crate_types.contains(&CrateType::CDyLib)
            && target.name.replace('-', "_") == library
            && example.is_none_or(|example| {
                target.kind.contains(&TargetKind::Example) && target.name == example
            })
    };
    let target = package.targets.iter().find(makes)?;
    Some(Product {
        package: package.name.to_string(),
        example: target
            .kind
            .contains(&TargetKind::Example)
            .then(|| target.name.clone()),
        library: library.to_owned(),
    })
}
