//! `init`: simulations for a layer that exists already.
//!
//! The layer's own crate is not touched. Beside it a crate is written that depends on it, with a
//! workload, a `cargo test` and a test file for both simulators; the workspace gets that crate as a
//! member, the stand-in for `foundationdb-sys`, and an optimised simulator; and the repository gets
//! a job for GitHub Actions. What is there already stays as it is, comments and all. The manifest
//! of the workspace is written last, so that an error on the way leaves it as it was.

mod job;
mod layer;
mod manifest;

use super::new::files::Plan;
use super::new::source::{Source, relative};
use super::new::write;
use crate::args::InitArgs;
use crate::exit_codes;
use cargo_metadata::MetadataCommand;
use std::fs;
use std::path::Path;

/// Writes the crate, and what its workspace needs.
pub fn init(args: &InitArgs) -> u8 {
    match write_all(args) {
        Ok(report) => {
            print!("{report}");
            exit_codes::PASSED
        }
        Err(message) => {
            eprintln!("error: {message}");
            exit_codes::SETUP_FAILED
        }
    }
}

fn write_all(args: &InitArgs) -> Result<String, String> {
    let mut command = MetadataCommand::new();
    if let Some(manifest) = &args.manifest_path {
        command.manifest_path(manifest);
    }
    let metadata = command.no_deps().exec().map_err(|error| match error {
        cargo_metadata::Error::CargoMetadata { stderr } => format!(
            "cannot read the cargo workspace (to start without one: `cargo shaketable new`): {}",
            stderr.trim().trim_start_matches("error: ")
        ),
        other => format!("cannot read the cargo workspace: {other}"),
    })?;
    let here = std::env::current_dir().unwrap_or_default();
    let found = layer::find(&metadata, args.package.as_deref(), &here)?;
    let root = metadata.workspace_root.as_std_path();
    let name = format!("{}-simulation", found.layer.package);
    let around = match found.layer.folder == root {
        true => root,
        false => found.layer.folder.parent().unwrap_or(root),
    };
    let folder = around.join(&name);
    if folder.exists() {
        return Err(format!("{} already exists", relative(&here, &folder)));
    }
    // A clone is looked for beside the workspace, not beside a member of it.
    let source = Source::find(args.source.as_deref(), root)?;
    let plan = Plan {
        name: name.clone(),
        folder: folder.clone(),
        source,
        version: found.version,
        tokio: found.has_tokio,
        layer: Some(found.layer),
    };
    let path = root.join("Cargo.toml");
    let before = fs::read_to_string(&path).map_err(|error| cannot_read(&path, &error))?;
    let (after, changes) = manifest::edit(
        &before,
        &relative(root, &folder),
        &plan.source.stand_in(root),
    )?;
    write(&folder, plan.files())?;
    let mut written = vec![format!(
        "  {}/  a workload, a test and a test file for `{}`",
        relative(&here, &folder),
        plan.layer.as_ref().map_or("", |layer| &layer.package)
    )];
    let job = root.join(job::PATH);
    if !job.exists() {
        let text = job::text(&plan, root);
        write(root, vec![(job::PATH.to_owned(), text)])?;
        written.push(format!("  {}  a job that runs it", relative(&here, &job)));
    }
    write(root, vec![("Cargo.toml".to_owned(), after)])?;
    if !changes.is_empty() {
        let manifest = relative(&here, &path);
        written.push(format!("  {manifest}  {}", changes.join(", ")));
    }
    let test_file = folder.join(format!("tests/{}.toml", plan.library()));
    Ok(format!(
        "written:\n{}\n\nnow:\n  cargo test -p {name}\n  cargo shaketable run {} --seeds 100\n\n\
         then call your layer in {}\n",
        written.join("\n"),
        relative(&here, &test_file),
        relative(&here, &folder.join("src/lib.rs")),
    ))
}

fn cannot_read(path: &Path, error: &std::io::Error) -> String {
    format!("cannot read {}: {error}", path.display())
}
