//! `new`: a crate with a workload, a test file, and everything to run it.

pub(in crate::commands) mod files;
mod name;
pub(in crate::commands) mod source;

use crate::args::NewArgs;
use crate::exit_codes;
use files::Plan;
use source::{Source, absolute};
use std::fs;
use std::path::Path;

/// Writes the crate.
pub fn new(args: &NewArgs) -> u8 {
    let folder = Path::new(&args.name);
    let name = folder
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if let Err(message) = name::check(&name) {
        eprintln!("error: {message}");
        return exit_codes::USAGE;
    }
    if folder.exists() {
        eprintln!(
            "error: {} already exists: choose another name, or write into a workspace with `cargo shaketable init`",
            folder.display()
        );
        return exit_codes::SETUP_FAILED;
    }
    let plan = match Source::find(args.source.as_deref(), folder) {
        Ok(source) => Plan {
            name,
            folder: absolute(folder),
            source,
            version: "fdb-7_4".to_owned(),
            tokio: args.tokio,
            layer: None,
        },
        Err(message) => {
            eprintln!("error: {message}");
            return exit_codes::SETUP_FAILED;
        }
    };
    if let Err(message) = write(folder, plan.files()) {
        eprintln!("error: {message}");
        return exit_codes::SETUP_FAILED;
    }
    println!(
        "{} is ready:\n  cd {}\n  cargo test\n  cargo shaketable run --seeds 100",
        folder.display(),
        folder.display()
    );
    exit_codes::PASSED
}

/// Writes files below a folder.
pub(in crate::commands) fn write(
    folder: &Path,
    files: Vec<(String, String)>,
) -> Result<(), String> {
    for (path, text) in files {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().expect("below the folder"))
            .and_then(|()| fs::write(&path, text))
            .map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    }
    Ok(())
}
